#pragma once

#include <cstdint>

namespace axonn {

// A product of two narrow matrices that is added to a weight: W + alpha / rank B A (Hu et al.,
// LoRA, 2021). Each segment of the output has its own A and B.
struct LowRankOptions {
  int64_t rank = 0;  // 0: none
  double alpha = 16;
  double scale() const { return alpha / static_cast<double>(rank); }
};

}  // namespace axonn
