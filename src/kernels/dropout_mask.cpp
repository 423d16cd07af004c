#include "kernels/dropout_mask.hpp"

#include <array>

#include "axonn/core/philox.hpp"

namespace axonn {

void fill_mask(float* out, const DropoutMask& mask, const MaskColumns& columns) {
  const auto kept = static_cast<float>(1 / (1 - mask.probability));
  uint64_t block = ~uint64_t{0};
  std::array<uint32_t, 4> words{};
  for (int64_t row = 0; row < mask.rows; ++row) {
    int64_t element = mask.begin_of(row) + columns.global;
    float* to = out + row * mask.width + columns.local;
    for (int64_t i = 0; i < columns.size; ++i, ++element) {
      if (static_cast<uint64_t>(element) / 4 != block) {
        block = static_cast<uint64_t>(element) / 4;
        words = philox(mask.seed, block, 0, mask.stream);
      }
      to[i] = to_uniform(words[static_cast<size_t>(element % 4)]) < mask.probability ? 0 : kept;
    }
  }
}

}  // namespace axonn
