#include "train/step/step_queue.hpp"

#include <utility>

namespace axonn {

std::optional<int64_t> StepQueue::take(int64_t steps, Trace& trace) {
  TrainStep::Taken taken = step_.take(steps, trace);
  report_.launched(taken.metrics);
  if (!taken.unread) report_.complete(taken.metrics);
  const std::optional<int64_t> back_to = taken.back_to;
  if (!back_to) taken_.push_back(std::move(taken));
  return back_to;
}

void StepQueue::complete(TrainStep::Taken& taken) {
  if (!taken.unread) return;
  step_.read(taken);
  report_.complete(taken.metrics);
}

void StepQueue::tell_earlier() {
  while (taken_.size() > 1) {
    complete(taken_.front());
    tell_oldest();
  }
}

void StepQueue::complete_newest() { complete(taken_.back()); }

void StepQueue::tell_newest() {
  if (!taken_.back().unread) tell_oldest();
}

void StepQueue::tell_oldest() {
  report_.tell(taken_.front().metrics);
  taken_.pop_front();
}

}  // namespace axonn
