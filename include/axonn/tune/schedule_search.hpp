#pragma once

#include <functional>
#include <vector>

#include "axonn/coconet/transform/transformation.hpp"

// The schedules of a program (CoCoNet, section 4: the autotuner).
namespace axonn::tune {

struct ScheduleSpace {
  std::vector<coconet::Schedule> schedules;  // canonical programs, breadth first; the first is the program itself
  bool complete = true;                      // false: there are more than `most`, or it was enough
};

// First, computations are fused as far as rules and plans allow. Then breadth first, from this
// program:
//
// | move | of |
// | --- | --- |
// | split by reduce_scatter (every dim) or reduce | every all_reduce of a tensor |
// | reorder | every gather, with every set of the computations that are made of it |
// | fuse | every two sections or statements, if that leaves a plan |
// | overlap | every producer with the collective that sums its value, if that leaves a plan |
//
// A number, or one per row, is no tensor and is not moved. After each reorder, every tensor that
// can be is kept as a slice, and what nobody reads is dead: these cost nothing. If an overlap is
// possible, tensors stay whole, too, as its parts are other slices. A statement that only stores a
// value goes into the value's section. After an overlap only overlaps follow. Joins are left out.
// The search ends early when `enough` says so; it is asked between schedules.
ScheduleSpace schedule_space(const coconet::Program& program, size_t most = 4000,
                             const std::function<bool()>& enough = {});

}  // namespace axonn::tune
