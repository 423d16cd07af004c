#pragma once

#include "axonn/comm/request.hpp"

namespace axonn {

struct GradientBucket;

// The part of an optimizer that runs inside a step of the scheduler: it takes the place of
// GradientSums for the buckets of one network (NetworkSchedule::set_step_optimizer). The rest of
// the update follows Scheduler::finish(), and is the optimizer's own affair.
//
// The host thread calls it during backward and in Scheduler::finish(), with the same buckets in the
// same order on every rank of the grid.
class StepOptimizer {
 public:
  virtual ~StepOptimizer() = default;

  // Launches the sum of a bucket over its axes, and with it as much of the update as the
  // optimizer's schedule does beside its sums. The request is done when both are. Afterwards only
  // the elements of this rank's own blocks (BlockOwners) need to hold sums.
  virtual Request sum_and_update(const GradientBucket& bucket) = 0;

  // Whether sum_and_update() writes weights: a step that has summed a bucket cannot be given up.
  virtual bool updates_with_sums() const = 0;
};

}  // namespace axonn
