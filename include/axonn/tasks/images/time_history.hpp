#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "axonn/checkpoint/checkpoint.hpp"

namespace axonn {

// The times at which samples are trained, by importance (Nichol and Dhariwal, 2021, section 3.3).
// Time t is drawn with a probability p(t) proportional to the root mean square of its last 10
// losses; a share of 0.001 is uniform. Its loss is weighted by 1 / (p(t) times), so the expected
// loss stays the same. Draws are uniform until every time has 10 losses. Ranks agree if each
// records the same losses in the same order.
class TimeHistory {
 public:
  static constexpr int64_t kLength = 10;
  explicit TimeHistory(int64_t times);

  struct Draw {
    at::Tensor times;    // (count) int64
    at::Tensor weights;  // (count) fp64; undefined while uniform: all 1
  };
  // For the samples first, first + 1, ...: each draw depends only on (seed, its number) and the
  // history.
  Draw draw(uint64_t seed, int64_t first, int64_t count) const;

  void record(int64_t time, double loss);  // ignores a loss that is not finite
  bool full() const;                       // every time has 10 losses
  CheckpointTensor state() const;          // "importance/losses" (times, 10); loading fills it in place

 private:
  int64_t times_;
  ShardSpec spec_;
  at::Tensor losses_;  // flat with the checkpoint's padding, fp64; one row per time, oldest first; NaN: none yet
};

}  // namespace axonn
