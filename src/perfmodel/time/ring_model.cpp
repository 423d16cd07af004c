#include "axonn/perfmodel/time/ring_model.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/grid/divisors.hpp"

namespace axonn {
namespace {

constexpr double kGiga = 1e9;

// Latency of a ring's hops within nodes and between them. A hop that does not occur may be
// infinite.
double hops_seconds(int64_t within, int64_t between, double intra, double inter) {
  return (within > 0 ? static_cast<double>(within) * intra : 0) +
         (between > 0 ? static_cast<double>(between) * inter : 0);
}

// The same of a ring with `inside` ranks per node.
double ring_latency(int64_t size, int64_t inside, double intra, double inter) {
  const int64_t nodes = size / std::max<int64_t>(inside, 1);
  return hops_seconds(size - nodes, nodes - 1, intra, inter);
}

// The hop of a level with protocol LL128; infinite if there is none.
double ll128_hop(const MachineLevel& level) {
  return level.ll128_latency_seconds > 0 ? level.ll128_latency_seconds : std::numeric_limits<double>::infinity();
}

// NCCL's tuning table: trees reach 92% of a link, with LL128's 120 bytes of 128.
constexpr double kTreeShare = 0.92 * 120 / 128;

// A hop of the level's trees; infinite if there are none.
double tree_hop(const MachineLevel& level) {
  return level.tree_latency_seconds > 0 ? level.tree_latency_seconds : std::numeric_limits<double>::infinity();
}

// Hops of a binary tree of so many nodes, from a leaf to the root.
int64_t tree_depth(int64_t nodes) { return std::bit_width(static_cast<uint64_t>(nodes - 1)); }

// Latency of trees over nodes with a chain of `inside` ranks each: up and down.
double tree_latency(int64_t size, int64_t inside, double intra, double inter) {
  const int64_t nodes = size / std::max<int64_t>(inside, 1);
  return 2 * hops_seconds(inside - 1, tree_depth(nodes), intra, inter);
}

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

// The nodes of each group of an axis, ascending.
std::vector<std::vector<int>> nodes_of_groups(const Grid& grid, Axis axis, std::span<const int> node_of_rank) {
  std::vector<std::vector<int>> all;
  for (const Group& group : grid.groups(axis)) {
    std::vector<int>& nodes = all.emplace_back();
    for (const int rank : group.ranks) nodes.push_back(node_of_rank[static_cast<size_t>(rank)]);
    std::ranges::sort(nodes);
    nodes.erase(std::ranges::unique(nodes).begin(), nodes.end());
  }
  return all;
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

AxisLinks counted_links(const Grid& grid, std::span<const int> node_of_rank, const Machine& machine, bool latency) {
  AXONN_CHECK(node_of_rank.size() == static_cast<size_t>(grid.ranks()), "perfmodel.counted_links", "grid ",
              grid.shape().to_string(), " has ", grid.ranks(), " ranks, got the nodes of ", node_of_rank.size());
  const MachineLevel &inside = machine.levels.front(), &outside = machine.levels.back();
  AxisLinks links;
  for (const Axis axis : kAxes) {
    const int64_t size = grid.shape()[axis];
    if (size == 1) continue;
    const auto visited = nodes_of_groups(grid, axis, node_of_rank);
    std::map<int, int64_t> rings;  // number of rings that leave each node
    for (const auto& nodes : visited)
      if (nodes.size() > 1)
        for (const int node : nodes) ++rings[node];
    double gbps = inside.bandwidth_gbps, hops = 0, short_hops = 0, tree_hops = 0;
    for (const auto& nodes : visited) {
      const auto count = static_cast<int64_t>(nodes.size());
      hops = std::max(hops, hops_seconds(size - count, count - 1, inside.latency_seconds, outside.latency_seconds));
      short_hops = std::max(short_hops, hops_seconds(size - count, count - 1, ll128_hop(inside), ll128_hop(outside)));
      tree_hops =
          std::max(tree_hops, tree_latency(size, (size + count - 1) / count, tree_hop(inside), tree_hop(outside)));
      if (count == 1) continue;
      for (const int node : nodes) gbps = std::min(gbps, outside.bandwidth_gbps / static_cast<double>(rings.at(node)));
    }
    AxisLink& link = links[static_cast<size_t>(axis)] = ring_link(size, gbps);
    if (!latency) continue;
    link.latency_seconds = hops;
    link.ll128_latency_seconds = short_hops;
    link.tree_latency_seconds = tree_hops;
    link.tree_seconds_per_byte = 2 / kTreeShare / (gbps * kGiga);
  }
  return links;
}

LayerBuffers layer_buffers(const LayerWork& layer, const GridShape& shape, double units) {
  const double gin = layer.whole_input ? 1 : shape[layer.in_axis()],
               gout = layer.whole_output ? 1 : shape[layer.out_axis()];
  return {.block = layer.weights() / (gin * gout),
          .output = units * layer.rows_out * static_cast<double>(layer.n) / gout,
          .input = units * layer.rows_in * static_cast<double>(layer.k) / gin};
}

CollectiveSeconds layer_collectives(const LayerWork& layer, const GridShape& shape, const AxisLinks& links,
                                    double units, double element_bytes, double gradient_bytes) {
  if (!layer.has_weight()) return {};
  const double count = static_cast<double>(layer.count);
  const auto [block, output, input] = layer_buffers(layer, shape, units);
  CollectiveSeconds seconds;
  if (layer.owns_weight) {
    seconds.all_gather_z = count * link_of(links, Axis::z).gather_seconds(block * element_bytes);
    seconds.reduce_scatter_z = count * link_of(links, Axis::z).gather_seconds(block * gradient_bytes);
    seconds.all_reduce_data = count * link_of(links, Axis::data).all_reduce_seconds(block / shape.z * gradient_bytes);
  }
  if (!layer.whole_input)
    seconds.all_reduce_forward = count * link_of(links, layer.in_axis()).all_reduce_seconds(output * element_bytes);
  if (layer.gives_input_gradient && !layer.whole_output)
    seconds.all_reduce_backward = count * link_of(links, layer.out_axis()).all_reduce_seconds(input * element_bytes);
  return seconds;
}

bool splits_a_group(const LayerWork& norm, const GridShape& shape) {
  if (norm.norm_groups == 0) return false;
  const int64_t size = shape[norm.split_axis()];
  if (size == 1) return false;
  int64_t channels = 0, begin = 0;
  for (const int64_t segment : norm.segments) channels += segment;
  const int64_t group = channels / norm.norm_groups;
  for (const int64_t segment : norm.segments) {
    for (int64_t i = 0; i < size; ++i)
      if ((begin + segment * i / size) % group != 0) return true;
    begin += segment;
  }
  return false;
}

ExchangeSeconds layer_exchanges(const LayerWork& layer, const GridShape& shape, const AxisLinks& links, double units,
                                double element_bytes, double statistic_bytes) {
  const double count = static_cast<double>(layer.count);
  ExchangeSeconds seconds;
  if (layer.moved > 0) {
    const double bytes = units * layer.moved * element_bytes;
    seconds.forward = count * link_of(links, layer.split_axis()).gather_seconds(bytes);
    seconds.backward = count * link_of(links, other_tensor_axis(layer.split_axis())).gather_seconds(bytes);
  }
  if (splits_a_group(layer, shape)) {
    double channels = 0;
    for (const int64_t segment : layer.segments) channels += static_cast<double>(segment);
    const AxisLink& link = link_of(links, layer.split_axis());
    seconds.forward += count * link.gather_seconds(2 * units * channels * statistic_bytes);
    seconds.backward +=
        count * link.all_reduce_seconds(2 * units * static_cast<double>(layer.norm_groups) * statistic_bytes);
  }
  return seconds;
}

ExchangeSeconds context_exchange(const LayerWork& layer, const GridShape& shape, const AxisLink& link, double units,
                                 double element_bytes, const ContextSplit& context) {
  const double ranks = static_cast<double>(context.ranks), x = shape.x;
  if (context.ranks == 1 || layer.keys_values == 0) return {};
  const double once =
      static_cast<double>(layer.count) * link.gather_seconds(ranks * units * layer.keys_values / x * element_bytes);
  return {.forward = once, .backward = 2 * once};
}

CollectiveSeconds published_collectives(const LayerTable& table, const GridShape& shape, const AxisLinks& links,
                                        double batch_tokens, double element_bytes, Coefficients coefficients) {
  AXONN_ASSERT(coefficients != Coefficients::trainer, "the trainer's counts follow from its settings");
  const double twice = coefficients == Coefficients::authors ? 2 : 1;
  const double tokens = batch_tokens / (static_cast<double>(shape.z) * shape.data);
  CollectiveSeconds sum;
  for (const LayerWork& layer : table) {
    if (!layer.in_block) continue;
    const auto once = layer_collectives(layer, shape, links, tokens, element_bytes, element_bytes);
    sum.all_gather_z += twice * once.all_gather_z;
    sum.reduce_scatter_z += once.reduce_scatter_z;
    sum.all_reduce_forward += twice * once.all_reduce_forward;
    sum.all_reduce_backward += once.all_reduce_backward;
    sum.all_reduce_data += twice * once.all_reduce_data;
  }
  return sum;
}

}  // namespace axonn
