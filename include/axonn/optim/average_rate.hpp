#pragma once

#include <algorithm>
#include <cstdint>

namespace axonn {

// How far an average of weights moves towards them at update n, counted from 1: 1 - min(decay,
// (1 + n) / (10 + n)). So the first weights count for little.
inline double average_rate(double decay, int64_t update) {
  const auto n = static_cast<double>(update);
  return 1 - std::min(decay, (1 + n) / (10 + n));
}

}  // namespace axonn
