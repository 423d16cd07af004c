#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "axonn/grid/grid.hpp"
#include "comm/host/channel_registry.hpp"

namespace axonn {

// The registries of all ranks of a job. The members of a group agree by a maximum over theirs.
class ChannelJob {
 public:
  ChannelJob(int ranks, uint32_t largest_channel)
      : registries_(static_cast<size_t>(ranks), ChannelRegistry(largest_channel)), used_(registries_.size()) {}

  // Every member makes a communicator. Returns whether all have a channel that none of them had.
  bool make(const Group& group, const std::string& name) {
    int64_t number = 0;
    for (const int rank : group.ranks) number = std::max(number, registries_[static_cast<size_t>(rank)].next());
    bool fresh = true;
    for (const int rank : group.ranks) {
      const auto id = registries_[static_cast<size_t>(rank)].make(group, name, number)->ids.front();
      auto& used = used_[static_cast<size_t>(rank)];
      fresh &= std::ranges::find(used, id) == used.end();
      used.push_back(id);
    }
    return fresh;
  }

  // All groups of a training run on this grid, among them the whole job.
  bool make_all(const Grid& grid) {
    static const std::vector<AxisSet> groups = {AxisSet::all(),
                                                {Axis::x},
                                                {Axis::y},
                                                {Axis::z},
                                                {Axis::data},
                                                {Axis::z, Axis::data},
                                                {Axis::x, Axis::y, Axis::z}};
    for (const AxisSet axes : groups)
      for (const Group& group : grid.groups(axes))
        if (group.size() > 1 && !make(group, axes.to_string())) return false;
    return true;
  }

  uint32_t largest_id() const {
    uint32_t largest = 0;
    for (const auto& used : used_) largest = std::max(largest, std::ranges::max(used));
    return largest;
  }

 private:
  std::vector<ChannelRegistry> registries_;
  std::vector<std::vector<uint32_t>> used_;  // by rank
};

// The grids of these many ranks, a power of two, with x and y up to 8 and z up to 32.
inline std::vector<Grid> power_of_two_grids(int ranks) {
  std::vector<Grid> grids;
  for (int x = 1; x <= 8; x *= 2)
    for (int y = 1; y <= 8; y *= 2)
      for (int z = 1; z <= 32; z *= 2)
        if (x * y * z <= ranks) grids.emplace_back(GridShape{.x = x, .y = y, .z = z, .data = ranks / (x * y * z)});
  return grids;
}

}  // namespace axonn
