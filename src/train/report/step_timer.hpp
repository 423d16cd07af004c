#pragma once

#include <chrono>

#include "axonn/train/report/trace.hpp"

namespace axonn {

// Adds its lifetime to a part of the step, unless `seconds` is null, and shows it in the trace.
class StepTimer {
 public:
  StepTimer(Trace& trace, const char* name, double* seconds) : trace_(trace), name_(name), seconds_(seconds) {}
  ~StepTimer() {
    const Trace::Time end = Clock::now();
    if (seconds_ != nullptr) *seconds_ += std::chrono::duration<double>(end - begin_).count();
    trace_.add(name_, begin_, end);
  }
  StepTimer(const StepTimer&) = delete;
  StepTimer& operator=(const StepTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  Trace& trace_;
  const char* name_;
  double* seconds_;
  Trace::Time begin_ = Clock::now();
};

}  // namespace axonn
