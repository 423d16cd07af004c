#include "axonn/perfmodel/reduction/reduction_simulator.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// Bytes on every link of a machine during one step.
class Links {
 public:
  explicit Links(const Network& network) : levels_(network.levels) {
    int devices = 1;
    for (const NetworkLevel& level : levels_) devices *= level.size;
    int below = devices;
    for (const NetworkLevel& level : levels_) {
      below /= level.size;
      below_.push_back(below);
      const auto links = static_cast<size_t>(level.shared ? devices / below : devices);
      out_.emplace_back(links, 0.0);
      in_.emplace_back(links, 0.0);
    }
  }

  int devices() const { return below_.front() * levels_.front().size; }
  int unit(int device, size_t level) const { return device / below_[level]; }

  // The outermost level at which two devices are in different units.
  size_t crossing(int a, int b) const {
    size_t level = 0;
    while (unit(a, level) == unit(b, level)) ++level;
    return level;
  }

  // Returns the message's latency.
  double send(int from, int to, double bytes) {
    const size_t top = crossing(from, to);
    for (size_t level = top; level < levels_.size(); ++level) {
      out_[level][link(from, level)] += bytes;
      in_[level][link(to, level)] += bytes;
    }
    return levels_[top].latency_seconds;
  }

  // Returns the busy time of the busiest link, and resets the links.
  double drain() {
    double seconds = 0;
    for (size_t level = 0; level < levels_.size(); ++level)
      for (auto* direction : {&out_[level], &in_[level]}) {
        seconds = std::max(seconds, *std::ranges::max_element(*direction) / levels_[level].bandwidth_bytes_per_second);
        std::ranges::fill(*direction, 0.0);
      }
    return seconds;
  }

 private:
  size_t link(int device, size_t level) const {
    return static_cast<size_t>(levels_[level].shared ? unit(device, level) : device);
  }

  std::span<const NetworkLevel> levels_;
  std::vector<int> below_;  // devices in one unit of a level
  std::vector<std::vector<double>> out_, in_;
};

// The members in the order of a ring that starts at the root.
std::vector<int> ring_of(std::span<const int> group) {
  std::vector<int> ring(group.begin(), group.end());
  std::ranges::sort(ring);
  std::ranges::rotate(ring, std::ranges::find(ring, group.front()));
  return ring;
}

// Sends along the first `edges` edges of the ring. Returns the sum of their latencies.
double send_around(Links& links, std::span<const int> ring, size_t edges, double bytes) {
  double latency = 0;
  for (size_t i = 0; i < edges; ++i) latency += links.send(ring[i], ring[(i + 1) % ring.size()], bytes);
  return latency;
}

// The parent of `rank` in NCCL's binary tree over `size` nodes. Rank 0 is the root; the position of
// the lowest set bit is the height.
int parent_in_tree(int rank, int size) {
  const int bit = rank & -rank;
  const int up = (rank ^ bit) | (bit << 1);
  return up < size ? up : rank ^ bit;
}

// Sends up and down two trees over the units of the outermost level that the group crosses, each
// with half of the data. Inside a unit the data moves along a chain.
double send_over_trees(Links& links, std::span<const int> ring, double bytes) {
  const size_t top = links.crossing(
      ring.front(), *std::ranges::max_element(ring, {}, [&](int d) { return std::abs(d - ring.front()); }));
  std::vector<int> heads;
  double chain = 0, longest_chain = 0;
  for (size_t i = 0; i < ring.size(); ++i) {
    if (i == 0 || links.unit(ring[i], top) != links.unit(ring[i - 1], top)) {
      heads.push_back(ring[i]);
      chain = 0;
      continue;
    }
    chain += links.send(ring[i], ring[i - 1], bytes);
    links.send(ring[i - 1], ring[i], bytes);
    longest_chain = std::max(longest_chain, chain);
  }
  const int size = static_cast<int>(heads.size());
  // The second tree is the first one mirrored, or shifted if `size` is odd.
  const auto head = [&](int tree, int rank) {
    return heads[static_cast<size_t>(tree == 0 ? rank : size % 2 == 0 ? size - 1 - rank : (rank + 1) % size)];
  };
  double hop = 0;
  for (int tree = 0; tree < 2; ++tree)
    for (int rank = 1; rank < size; ++rank) {
      const int child = head(tree, rank), parent = head(tree, parent_in_tree(rank, size));
      hop = std::max(hop, links.send(child, parent, bytes / 2));
      links.send(parent, child, bytes / 2);
    }
  return 2 * (longest_chain + hop * std::bit_width(static_cast<unsigned>(size - 1)));
}

// Loads the links with one group's collective and returns its latency. `bytes`: size of each
// member's data before the collective (all-gather: after it).
double run_group(Links& links, std::span<const int> group, Collective collective, double bytes,
                 CollectiveAlgorithm algorithm) {
  const auto ring = ring_of(group);
  const double share = static_cast<double>(ring.size() - 1) / static_cast<double>(ring.size());
  switch (collective) {
    case Collective::all_reduce:
      if (algorithm == CollectiveAlgorithm::tree) return send_over_trees(links, ring, bytes);
      return 2 * share * send_around(links, ring, ring.size(), 2 * share * bytes);
    case Collective::reduce_scatter:
    case Collective::all_gather:
      return share * send_around(links, ring, ring.size(), share * bytes);
    case Collective::broadcast:
      return send_around(links, ring, ring.size() - 1, bytes);
    case Collective::reduce: {
      const std::vector<int> towards_root(ring.rbegin(), ring.rend());
      return send_around(links, towards_root, ring.size() - 1, bytes);
    }
  }
  throw InternalError("perfmodel.simulate_reduction",
                      detail::concatenate("no collective ", static_cast<int>(collective)));
}

}  // namespace

void check_network(const Network& network) {
  AXONN_CHECK(!network.levels.empty(), "perfmodel.network", "a network has at least one level");
  int64_t devices = 1;
  for (const NetworkLevel& level : network.levels) {
    AXONN_CHECK(level.size >= 1, "perfmodel.network", "level '", level.name, "' has size ", level.size,
                ", need at least 1");
    AXONN_CHECK(std::isfinite(level.bandwidth_bytes_per_second) && level.bandwidth_bytes_per_second > 0,
                "perfmodel.network", "level '", level.name, "' has a bandwidth of ", level.bandwidth_bytes_per_second,
                " bytes/s, need more than 0");
    AXONN_CHECK(std::isfinite(level.latency_seconds) && level.latency_seconds >= 0, "perfmodel.network", "level '",
                level.name, "' has a latency of ", level.latency_seconds, " s, need 0 or more");
    devices *= level.size;
    AXONN_CHECK(devices <= std::numeric_limits<int>::max(), "perfmodel.network",
                "a network has at most 2147483647 devices");
  }
  AXONN_CHECK(std::isfinite(network.memory_bytes_per_second) && network.memory_bytes_per_second >= 0,
              "perfmodel.network", "the memory has a bandwidth of ", network.memory_bytes_per_second,
              " bytes/s, need 0 (no copy) or more");
}

ReductionTime simulate_reduction(const Network& network, const ReductionProgram& program, double bytes,
                                 CollectiveAlgorithm algorithm) {
  check_network(network);
  AXONN_CHECK(std::isfinite(bytes) && bytes >= 0, "perfmodel.simulate_reduction", "each device has ", bytes,
              " bytes to reduce, need 0 or more");
  Links links(network);
  const HeldShares shares = held_shares(program, links.devices());
  ReductionTime time;
  if (network.memory_bytes_per_second > 0) time.copy_seconds = 2 * bytes / network.memory_bytes_per_second;
  time.seconds = time.copy_seconds;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const ReductionStep& step = program.steps[s];
    double latency = 0;
    for (const auto& group : step.groups) {
      const size_t when = step.collective == Collective::all_gather ? s + 1 : s;
      const double held = bytes * shares[when][static_cast<size_t>(group.front())];
      latency = std::max(latency, run_group(links, group, step.collective, held, algorithm));
    }
    time.step_seconds.push_back(links.drain() + latency);
    time.seconds += time.step_seconds.back();
  }
  return time;
}

}  // namespace axonn
