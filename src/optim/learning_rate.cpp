#include "axonn/optim/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace axonn {

double LearningRate::at(int64_t step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (steps <= warmup) return peak;
  const double done = std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(steps - warmup));
  return end + (peak - end) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace axonn
