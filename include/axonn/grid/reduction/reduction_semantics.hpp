#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "axonn/grid/reduction/reduction_program.hpp"

namespace axonn {

// Why a collective cannot run on a group (P2, Figure 8, and two rules that the figure does not
// state).
enum class ReductionFault : uint8_t {
  none,
  no_data,          // no member of the group holds any data
  other_chunks,     // all-reduce, reduce-scatter, reduce: the members hold different chunks
  counted_twice,    // all-reduce, reduce-scatter, reduce: two members' chunks have a contribution in common
  not_divisible,    // reduce-scatter: the chunks do not divide by the members
  uneven,           // all-gather: the members hold different numbers of chunks
  held_twice,       // all-gather: two members hold the same chunk
  root_knows_less,  // broadcast: a member has something that the root does not have
  nothing_new,      // broadcast: every member already has all of the root
};
std::string_view to_string(ReductionFault fault);  // the end of a sentence: "members hold different chunks"

// The data of every device (P2, section 3.2). There are as many chunks as devices. A device holds
// some of the chunks, each a sum over the contributions of some devices. Memory: devices^3 bits.
class ReductionState {
 public:
  // The start: device i holds every chunk, each with only its own contribution. UserError unless
  // devices is from 1 to 1024.
  explicit ReductionState(int devices);

  int devices() const { return devices_; }
  bool holds(int device, int chunk) const;                               // the chunk has a contribution
  bool contributed(int device, int chunk, int source) const;             // from `source`
  std::span<const uint64_t> contributions(int device, int chunk) const;  // one bit per source, lowest first

  // Applies Figure 8 to one group (root first), or to all groups of a step. After a fault the state
  // of that group is unchanged. Earlier groups of the step are done.
  ReductionFault apply(Collective collective, std::span<const int> group);
  ReductionFault apply(const ReductionStep& step);

  size_t hash() const;
  bool operator==(const ReductionState&) const = default;

 private:
  uint64_t* row(int device, int chunk) {
    return bits_.data() + (static_cast<size_t>(device) * devices_ + chunk) * words_;
  }
  const uint64_t* row(int device, int chunk) const {
    return bits_.data() + (static_cast<size_t>(device) * devices_ + chunk) * words_;
  }
  void clear(int device);
  ReductionFault sum_into_root(std::span<const int> group);
  ReductionFault reduce_scatter(std::span<const int> group);
  ReductionFault all_gather(std::span<const int> group);
  ReductionFault broadcast(std::span<const int> group);

  int devices_;
  int words_;
  std::vector<uint64_t> bits_;  // (device, chunk, word of contributions)
};

// The state in which a program must end. `groups` partition the devices. Every device's data are
// summed over its own group.
enum class ReductionGoal : uint8_t {
  all_reduce,      // every device holds every chunk
  reduce_scatter,  // member i of a group of g holds part i of g, and nothing else
  scatter,         // every member of a group of g holds 1/g, no chunk twice: a reduce-scatter with parts in any order
};
bool reached(const ReductionState& state, std::span<const std::vector<int>> groups, ReductionGoal goal);

// UserError unless the program takes every group from the start to the goal. It names the step, the
// group and the broken rule, or the group that is not reduced at the end. Groups have at most 1024
// ranks.
void check_reduces(const ReductionProgram& program, std::span<const std::vector<int>> groups, ReductionGoal goal);

}  // namespace axonn
