#pragma once

#include <cstdint>
#include <string>

namespace axonn {

// Linear warm-up to `peak` over `warmup` steps, then a cosine to `end` at step `steps`.
struct LearningRate {
  double peak = 3e-4;
  double end = 3e-5;
  int64_t warmup = 100;
  int64_t steps = 1000;

  double at(int64_t step) const;  // `step` counts from 0
  // "learning rate 0.0003 after 100 steps of warm-up, then a cosine to 3e-05"
  std::string to_string() const;
};

}  // namespace axonn
