#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "axonn/train/report/trace.hpp"
#include "train/report/metrics.hpp"
#include "train/run_report.hpp"
#include "train/step/train_step.hpp"

namespace axonn {

// Takes the steps of a run, and tells each when its numbers are there. That is at once, unless they
// are on their way from a GPU: then the host launches the next step before it waits for them. So
// one or two steps are here, and whoever needs the newest one's numbers says so. Every rank calls
// the same functions.
class StepQueue {
 public:
  // Both outlive it.
  StepQueue(TrainStep& step, RunReport& report) : step_(step), report_(report) {}

  // Takes the step that follows `steps` steps. If the network goes back to an earlier step instead,
  // returns that one's number, and the step is not here.
  std::optional<int64_t> take(int64_t steps, Trace& trace);
  StepMetrics& newest() { return taken_.back().metrics; }
  void tell_earlier();     // all but the newest; waits for their numbers
  void complete_newest();  // waits for its numbers
  void tell_newest();      // unless its numbers are on their way

 private:
  void complete(TrainStep::Taken& taken);
  void tell_oldest();

  TrainStep& step_;
  RunReport& report_;
  std::deque<TrainStep::Taken> taken_;  // the oldest first
};

}  // namespace axonn
