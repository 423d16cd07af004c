#pragma once

#include <cstdint>
#include <string_view>

#include "axonn/core/names.hpp"

namespace axonn {

enum class OptimizerKind : uint8_t { adamw, sgd, sgd_momentum, lamb };

// Facts of an optimizer that planner and trainer both need. The update itself is in optim.
struct OptimizerTerms {
  std::string_view name;
  OptimizerKind value;
  int moments;  // state elements per weight
};

template <>
struct Names<OptimizerKind> {
  static constexpr OptimizerTerms all[] = {
      {"adamw", OptimizerKind::adamw, 2},
      {"sgd", OptimizerKind::sgd, 0},
      {"sgd-momentum", OptimizerKind::sgd_momentum, 1},
      {"lamb", OptimizerKind::lamb, 3},  // mean, square, direction
  };
};

constexpr int optimizer_moments(OptimizerKind kind) {
  for (const OptimizerTerms& optimizer : Names<OptimizerKind>::all)
    if (optimizer.value == kind) return optimizer.moments;
  return 0;
}

}  // namespace axonn
