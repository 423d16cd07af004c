#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "axonn/checkpoint/checkpoint.hpp"

namespace axonn {

// The times at which samples are trained, by importance (Nichol and Dhariwal, 2021, section 3.3): time t is drawn with a probability p(t)
// proportional to the root of the mean square of its last 10 losses, a share of 0.001 uniform, and weighs 1 / (p(t) times), so that the
// expected loss stays the same. Uniform until every time has 10 losses. Ranks agree as long as each records the same losses in the same
// order.
class TimeHistory {
 public:
  static constexpr int64_t kLength = 10;
  explicit TimeHistory(int64_t times);

  struct Draw {
    at::Tensor times;    // (count) int64
    at::Tensor weights;  // (count) fp64; undefined while uniform: all 1
  };
  // Of samples number first, first + 1, ...: each follows (seed, its number) and the history alone.
  Draw draw(uint64_t seed, int64_t first, int64_t count) const;

  void record(int64_t time, double loss);  // one that is not finite is left out
  bool full() const;                       // every time has its losses
  CheckpointTensor state() const;          // "importance/losses" (times, 10); loading fills it in place

 private:
  int64_t times_;
  ShardSpec spec_;
  at::Tensor losses_;  // flat with the checkpoint's padding, fp64; a row a time, the oldest loss first; NaN where there is none yet
};

}  // namespace axonn
