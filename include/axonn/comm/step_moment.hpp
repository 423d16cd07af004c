#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace axonn {

// The step that a program is in. The code that counts the steps sets it, at the same place of the
// program on every rank, and communicators that were made with it read it in each call. So a call
// in one step is no longer taken for the same call in another: the job ends (Communicator). Set by
// one thread at a time, read by any.
class StepMoment {
 public:
  // `micro_batches`: of the step that is under way; 0 between two steps.
  void set(int64_t step, int micro_batches) {
    packed_.store(static_cast<uint64_t>(step) << kBits | static_cast<uint64_t>(micro_batches),
                  std::memory_order_relaxed);
  }
  // As one number; 0 before the first step.
  uint64_t packed() const { return packed_.load(std::memory_order_relaxed); }
  // "in step 2 of 4 micro-batches", "after step 2"; empty before the first step.
  static std::string text(uint64_t packed);

 private:
  static constexpr int kBits = 24;  // for micro_batches

  std::atomic<uint64_t> packed_{0};
};

}  // namespace axonn
