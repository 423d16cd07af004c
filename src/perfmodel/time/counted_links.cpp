// Mode exact for any rank map.
#include <algorithm>
#include <map>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/perfmodel/time/ring_model.hpp"
#include "perfmodel/time/hops.hpp"

namespace axonn {
namespace {

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

}  // namespace axonn
