#include "axonn/perfmodel/time/ring_model.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/grid/divisors.hpp"
#include "perfmodel/time/hops.hpp"

namespace axonn {
namespace {

struct Between {  // an axis, and the product of the sizes inside it
  int64_t inner = 1, size = 1;
  int64_t outer() const { return inner * size; }
};

// Equation 10.
double aware_gbps(const Between& axis, int64_t node, double intra, double inter) {
  return axis.outer() <= node ? intra : inter / static_cast<double>(std::min(node, axis.inner));
}

// GB/s of one ring of a group with factors[l] members at level l, while every group of the axis is
// busy. The rings that leave a unit share its link.
double flat_gbps(std::span<const int64_t> factors, std::span<const int64_t> units, const Machine& machine) {
  size_t outermost = 0;
  for (size_t level = 0; level < factors.size(); ++level)
    if (factors[level] > 1) outermost = level;
  double gbps = std::numeric_limits<double>::infinity();
  int64_t members = 1;
  for (size_t level = 0; level <= outermost; ++level) {
    const double rings = static_cast<double>(units[level]) / static_cast<double>(members);
    gbps = std::min(gbps, machine.levels[level].bandwidth_gbps / rings);
    members *= factors[level];
  }
  return gbps;
}

AxisLink placed_link(std::span<const int64_t> factors, std::span<const int64_t> units, const Machine& machine,
                     bool multi_level, bool latency) {
  int64_t size = 1;
  for (const int64_t factor : factors) size *= factor;
  if (size == 1) return {};
  AxisLink flat = ring_link(size, flat_gbps(factors, units, machine));
  AxisLink levels = {.gbps = flat.gbps, .multi_level = true};
  if (latency) flat.ll128_latency_seconds = levels.ll128_latency_seconds = levels.tree_latency_seconds = 0;
  int64_t members = 1, used = 0;
  double slowest = std::numeric_limits<double>::infinity();  // per GPU, if all GPUs of a unit share a link
  for (size_t level = 0; level < factors.size(); ++level) {
    const double hop = machine.levels[level].latency_seconds, short_hop = ll128_hop(machine.levels[level]);
    slowest = std::min(slowest, machine.levels[level].bandwidth_gbps / static_cast<double>(units[level]));
    if (factors[level] == 1) continue;
    const auto f = static_cast<double>(factors[level]);
    ++used;
    levels.seconds_per_byte += (f - 1) / f / static_cast<double>(members) / (slowest * kGiga);
    if (latency) {
      const auto hops = static_cast<double>(size / members - size / members / factors[level]);
      levels.latency_seconds += (f - 1) * hop;
      levels.ll128_latency_seconds += (f - 1) * short_hop;
      flat.latency_seconds += hops * hop;
      flat.ll128_latency_seconds += hops * short_hop;
      const bool nodes = level > 0 && level + 1 == machine.levels.size();
      levels.tree_latency_seconds += 2 * static_cast<double>(nodes ? tree_depth(factors[level]) : factors[level] - 1) *
                                     tree_hop(machine.levels[level]);
    }
    members *= factors[level];
  }
  if (latency) {
    flat.tree_latency_seconds = levels.tree_latency_seconds;
    flat.tree_seconds_per_byte = 2 / kTreeShare / (flat.gbps * kGiga);
    levels.tree_seconds_per_byte = 2 / kTreeShare * levels.seconds_per_byte;
  }
  if (multi_level && used > 1 && levels.seconds_per_byte < flat.seconds_per_byte) return levels;
  return flat;
}

constexpr size_t kMostLevels = 8;
using LevelNumbers = std::array<int64_t, kMostLevels>;

// GPUs per unit of the level below.
LevelNumbers units_of(const AxisPlacement& placement, const Machine& machine) {
  const size_t count = placement.levels.size();
  AXONN_ASSERT(count <= machine.levels.size() && count <= kMostLevels, count, " levels");
  LevelNumbers units{};
  units[0] = 1;
  for (size_t level = 0; level + 1 < count; ++level) units[level + 1] = units[level] * placement.levels[level].ranks();
  return units;
}

// Calls visit() for every way to divide an axis of `left` members among the levels from `level` on.
void visit_factors(size_t level, int64_t left, std::span<const int64_t> level_sizes, LevelNumbers& factors,
                   const std::function<void()>& visit) {
  if (level == level_sizes.size()) {
    if (left == 1) visit();
    return;
  }
  for (const int factor : divisors(std::gcd(left, level_sizes[level]))) {
    factors[level] = factor;
    visit_factors(level + 1, left / factor, level_sizes, factors, visit);
  }
}

}  // namespace

AxisLink ring_link(int64_t size, double gbps) {
  if (size <= 1) return {};
  const auto g = static_cast<double>(size);
  return {.seconds_per_byte = (g - 1) / g / (gbps * kGiga), .gbps = gbps};
}

AxisLinks ordered_links(BandwidthMode mode, const GridShape& shape, const AxisOrder& order, const Machine& machine,
                        std::span<const int64_t> level_sizes, bool latency) {
  AXONN_ASSERT(mode != BandwidthMode::exact, "mode exact takes a placement");
  const size_t levels = level_sizes.size();
  const double outermost = machine.levels[levels - 1].bandwidth_gbps;
  const int64_t node = machine.node_size();
  const MachineLevel &inside = machine.levels[machine.levels.size() < 2 ? 0 : machine.levels.size() - 2],
                     &outside = machine.levels.back();
  AxisLinks links;
  Between axis;
  for (const Axis name : order) {
    axis = {.inner = axis.outer(), .size = shape[name]};
    if (axis.size == 1) continue;
    const double gbps = mode == BandwidthMode::agnostic ? outermost
                        : mode == BandwidthMode::aware
                            ? aware_gbps(axis, node, inside.bandwidth_gbps, outside.bandwidth_gbps)
                            : machine.measured_gbps(axis.inner, axis.size);
    AxisLink& link = links[static_cast<size_t>(name)] = ring_link(axis.size, gbps);
    const int64_t on_node = std::clamp<int64_t>(node / std::min(node, axis.inner), 1, axis.size);
    if (!latency) continue;
    link.latency_seconds = ring_latency(axis.size, on_node, inside.latency_seconds, outside.latency_seconds);
    link.ll128_latency_seconds = ring_latency(axis.size, on_node, ll128_hop(inside), ll128_hop(outside));
    link.tree_latency_seconds = tree_latency(axis.size, on_node, tree_hop(inside), tree_hop(outside));
    link.tree_seconds_per_byte = 2 / kTreeShare / (gbps * kGiga);
  }
  return links;
}

AxisLinks placed_links(const AxisPlacement& placement, const Machine& machine, bool multi_level, bool latency) {
  const size_t count = placement.levels.size();
  const LevelNumbers units = units_of(placement, machine);
  LevelNumbers factors{};
  AxisLinks links;
  for (const Axis axis : kAxes) {
    for (size_t level = 0; level < count; ++level) factors[level] = placement.levels[level][axis];
    links[static_cast<size_t>(axis)] =
        placed_link(std::span(factors).first(count), std::span(units).first(count), machine, multi_level, latency);
  }
  return links;
}

AxisLink least_link(int64_t size, std::span<const int64_t> level_sizes, const Machine& machine, bool multi_level,
                    bool latency) {
  AXONN_ASSERT(level_sizes.size() <= kMostLevels, level_sizes.size(), " levels");
  LevelNumbers units{}, factors{};
  units[0] = 1;
  for (size_t level = 0; level + 1 < level_sizes.size(); ++level) units[level + 1] = units[level] * level_sizes[level];
  constexpr double kNone = std::numeric_limits<double>::infinity();
  AxisLink least = {.seconds_per_byte = kNone, .latency_seconds = kNone, .tree_seconds_per_byte = kNone};
  visit_factors(0, size, level_sizes, factors, [&] {
    const AxisLink link = placed_link(std::span(factors).first(level_sizes.size()),
                                      std::span(units).first(level_sizes.size()), machine, multi_level, latency);
    for (double AxisLink::* const part :
         {&AxisLink::seconds_per_byte, &AxisLink::latency_seconds, &AxisLink::ll128_latency_seconds,
          &AxisLink::tree_seconds_per_byte, &AxisLink::tree_latency_seconds})
      least.*part = std::min(least.*part, link.*part);
  });
  return least;
}

AxisLink neighbours_link(const AxisPlacement& placement, Axis axis, int64_t ranks, const Machine& machine) {
  const size_t count = placement.levels.size();
  const LevelNumbers units = units_of(placement, machine);
  LevelNumbers factors{};
  for (size_t level = 0; level < count; ++level) {
    factors[level] = std::gcd(ranks, int64_t{placement.levels[level][axis]});
    ranks /= factors[level];
  }
  AXONN_ASSERT(ranks == 1, "the ranks divide axis ", to_string(axis));
  return placed_link(std::span(factors).first(count), std::span(units).first(count), machine, /*multi_level=*/false,
                     /*latency=*/true);
}

}  // namespace axonn
