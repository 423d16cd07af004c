#pragma once

#include <cstdint>

namespace axonn {

enum class OptimizerKind : uint8_t { sgd, sgd_momentum, adamw };

// Elements of optimizer state a weight: sgd 0, sgd_momentum 1, adamw 2.
int64_t optimizer_moments(OptimizerKind kind);

}  // namespace axonn
