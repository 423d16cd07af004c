#pragma once

namespace axonn {

// Acts at the ends of a step for a network whose layers do not call the schedule themselves
// (NetworkSchedule::listen). The host thread calls it, on every rank of the grid.
class StepListener {
 public:
  virtual ~StepListener() = default;
  virtual void step_begins() {}  // before anything has begun: an error leaves the step closed
  virtual void step_begun() {}
  virtual void step_ends() {}  // before missing gradients are looked for: an error leaves the step open
  // All gradients are valid, or else the step was given up.
  virtual void step_over(bool finished) = 0;
};

}  // namespace axonn
