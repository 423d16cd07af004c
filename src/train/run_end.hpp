#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "axonn/comm/communicator.hpp"
#include "axonn/train/train_config.hpp"

namespace axonn {

// Whether a run is over: after its last step, on a signal, or when the time of --minutes is. Every
// rank has the same answer, after the same calls on all of them.
class RunEnd {
 public:
  // All of them outlive it. An empty `stop` never asks for the end.
  RunEnd(const TrainConfig& config, Communicator& everyone, const std::function<bool()>& stop)
      : config_(config), everyone_(everyone), stop_(stop) {}

  void start() { start_ = Clock::now(); }  // the time begins
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // After each step: what this rank wishes, and then the maximum over the ranks of each number.
  using Wishes = std::array<double, 2>;
  Wishes wishes() const;
  void decide(const Wishes& greatest);
  // Within the work between two steps: whether any rank got a signal. Collective.
  bool ask();

  bool reached(int64_t steps) const { return stopped_ || out_of_time_ || steps >= config_.steps; }
  std::string why_early() const;  // the reason why a run has fewer than all steps; on rank 0

 private:
  using Clock = std::chrono::steady_clock;

  bool wants_stop() const { return stop_ && stop_(); }

  const TrainConfig& config_;
  Communicator& everyone_;
  const std::function<bool()>& stop_;
  Clock::time_point start_ = Clock::now();
  bool stopped_ = false;  // some rank wants it, and all know it
  bool out_of_time_ = false;
};

}  // namespace axonn
