#pragma once

#include <cstdint>
#include <string>

#include "axonn/core/names.hpp"

namespace axonn {

// The way of the rate after the warm-up.
enum class LearningRateSchedule : uint8_t {
  cosine,    // half a cosine to the end
  linear,    // a line to the end
  constant,  // the peak
  wsd,       // warm-up, stable, decay: the peak, then a line to the end
};

template <>
struct Names<LearningRateSchedule> {
  static constexpr Named<LearningRateSchedule> all[] = {{"cosine", LearningRateSchedule::cosine},
                                                        {"linear", LearningRateSchedule::linear},
                                                        {"constant", LearningRateSchedule::constant},
                                                        {"wsd", LearningRateSchedule::wsd}};
};

// Linear warm-up to `peak` over `warmup` steps, then the schedule down to `end`, which stays.
// A line falls from the step after the peak on, and has `end` in the last of `steps`. A cosine
// begins with the peak, and would have `end` in the step after the last one, as in nanoGPT.
struct LearningRate {
  double peak = 3e-4;
  double end = 3e-5;  // not with `constant`
  int64_t warmup = 100;
  int64_t steps = 1000;
  LearningRateSchedule schedule = LearningRateSchedule::cosine;
  double decay = 0.2;  // with wsd: share of `steps`, at their end, in which the rate falls

  double at(int64_t step) const;  // `step` counts from 0
  // "learning rate 0.0003 after 100 steps of warm-up, then a cosine to 3e-05"
  std::string to_string() const;

 private:
  int64_t fall_begins() const;
};

}  // namespace axonn
