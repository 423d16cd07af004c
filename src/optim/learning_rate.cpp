#include "axonn/optim/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace axonn {
namespace {

std::string rate_text(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", rate);
  return text;
}

std::string steps_text(int64_t steps) { return std::to_string(steps) + (steps == 1 ? " step" : " steps"); }

}  // namespace

// The first step of a cosine, which still has the peak, or of a line, which is below it.
int64_t LearningRate::fall_begins() const {
  if (schedule == LearningRateSchedule::cosine) return warmup;
  const int64_t after_peak = std::max<int64_t>(warmup, 1);
  if (schedule != LearningRateSchedule::wsd) return after_peak;
  const auto falling = static_cast<int64_t>(std::llround(decay * static_cast<double>(steps)));
  return std::max(after_peak, steps - std::max<int64_t>(falling, 1));
}

double LearningRate::at(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const int64_t begin = fall_begins();
  if (steps <= warmup || step < begin || schedule == LearningRateSchedule::constant) return peak;
  const bool cosine = schedule == LearningRateSchedule::cosine;
  const int64_t fallen = step - begin + (cosine ? 0 : 1);
  const double done = fallen < steps - begin ? static_cast<double>(fallen) / static_cast<double>(steps - begin) : 1;
  return end + (peak - end) * (cosine ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1 - done);
}

std::string LearningRate::to_string() const {
  if (steps < warmup)
    return "learning rate up to " + rate_text(at(steps - 1)) + ": the warm-up to " + rate_text(peak) + " takes " +
           steps_text(warmup);
  std::string text = "learning rate " + rate_text(peak);
  if (warmup > 0) text += " after " + steps_text(warmup) + " of warm-up";
  if (steps <= warmup || end == peak || schedule == LearningRateSchedule::constant) return text;
  text += (schedule == LearningRateSchedule::cosine ? ", then a cosine to " : ", then a line to ") + rate_text(end);
  if (schedule == LearningRateSchedule::wsd) text += " over the last " + steps_text(steps - fall_begins());
  return text;
}

}  // namespace axonn
