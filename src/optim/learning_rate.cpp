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

double LearningRate::at(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (steps <= warmup) return peak;
  const double done = std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(steps - warmup));
  return end + (peak - end) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

std::string LearningRate::to_string() const {
  if (steps < warmup)
    return "learning rate up to " + rate_text(at(steps - 1)) + ": the warm-up to " + rate_text(peak) + " takes " +
           steps_text(warmup);
  std::string text = "learning rate " + rate_text(peak);
  if (warmup > 0) text += " after " + steps_text(warmup) + " of warm-up";
  if (steps > warmup && end != peak) text += ", then a cosine to " + rate_text(end);
  return text;
}

}  // namespace axonn
