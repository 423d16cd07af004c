#include "kernels/dropout_mask.hpp"

#include <algorithm>

#include "kernels/gpu/launch.cuh"
#include "kernels/gpu/packs.cuh"
#include "kernels/gpu/philox.cuh"

namespace axonn {
namespace {

constexpr int kThreads = 256, kMostBlocks = 4096, kWords = 4;

// A thread takes a Philox block, which has the words of four elements of the whole tensor: those of
// them that lie in the columns of its row. `blocks`: of a row, at most.
template <typename Element>
__global__ void fill(Element* out, DropoutMask mask, MaskColumns columns, int64_t blocks) {
  const int64_t all = mask.rows * blocks, step = int64_t{gridDim.x} * kThreads;
  const auto kept = static_cast<Element>(static_cast<float>(1 / (1 - mask.probability)));
  const int64_t first = mask.first + (mask.origin == nullptr ? 0 : *mask.origin * mask.sample);
  for (int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x; index < all; index += step) {
    const int64_t row = index / blocks, counted = mask.first_row + row;
    const int64_t outer = counted / (mask.middle * mask.inner), middle = counted / mask.inner % mask.middle,
                  inner = counted % mask.inner;
    const int64_t begin =
        first + outer * mask.outer_stride + middle * mask.middle_stride + inner * mask.inner_stride + columns.global;
    const int64_t block = begin / kWords + index % blocks;
    const uint4 words = philox_words(mask.seed, static_cast<uint64_t>(block), mask.stream);
    const uint32_t word[kWords] = {words.x, words.y, words.z, words.w};
    for (int i = 0; i < kWords; ++i) {
      const int64_t column = block * kWords + i - begin;
      if (column < 0 || column >= columns.size) continue;
      out[row * mask.width + columns.local + column] =
          word[i] * 0x1p-32 < mask.probability ? static_cast<Element>(0.0f) : kept;
    }
  }
}

}  // namespace

void fill_cuda_mask(void* out, c10::ScalarType type, const DropoutMask& mask, const MaskColumns& columns, int device) {
  const int64_t blocks = (kWords - 1 + columns.size + kWords - 1) / kWords, all = mask.rows * blocks;
  if (mask.rows * columns.size == 0) return;
  dispatch(type, /*width=*/1, {}, [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
    const int64_t launched = std::min<int64_t>((all + kThreads - 1) / kThreads, kMostBlocks);
    launch("layers.dropout", device, {static_cast<unsigned>(launched), kThreads}, fill<Element>,
           static_cast<Element*>(out), mask, columns, blocks);
  });
}

}  // namespace axonn
