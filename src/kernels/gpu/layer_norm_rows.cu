#include "kernels/gpu/layer_norm_rows.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "kernels/gpu/launch.cuh"
#include "kernels/gpu/packs.cuh"

namespace axonn {
namespace {

constexpr int kWarp = 32, kMostThreads = 512, kMostBlocks = 1024;
constexpr int kSumThreads = 1024, kGroups = kSumThreads / kWarp;

template <typename Number>
struct Sums {
  Number gradient, product;
};

// Of all threads of the block, for each of them. All threads call it, with the other `buffer` (0 or
// 1) each time: so one barrier is enough.
template <typename Number>
__device__ Sums<Number> of_block(Sums<Number> mine, int buffer) {
  __shared__ Sums<Number> sums[2][kMostThreads / kWarp];
  for (int mask = kWarp / 2; mask > 0; mask /= 2) {
    mine.gradient += __shfl_xor_sync(~0u, mine.gradient, mask);
    mine.product += __shfl_xor_sync(~0u, mine.product, mask);
  }
  if (threadIdx.x % kWarp == 0) sums[buffer][threadIdx.x / kWarp] = mine;
  __syncthreads();
  Sums<Number> all = {0, 0};
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) {
    all.gradient += sums[buffer][warp].gradient;
    all.product += sums[buffer][warp].product;
  }
  return all;
}

// A thread takes a pack of columns, and a block every gridDim.x-th row.
template <typename Element, int size>
__global__ void __launch_bounds__(kMostThreads)
    backward(LayerNormRows rows, const Element* grad, const Element* added, Element* grad_input, Wide<Element>* parts) {
  using Number = Wide<Element>;
  using Some = Pack<Element, size>;
  const auto some = [](const void* begin, int64_t at) {
    return *reinterpret_cast<const Some*>(static_cast<const Element*>(begin) + at);
  };
  const int64_t column = int64_t{threadIdx.x} * size;
  const bool here = column < rows.width;
  Number weight[size] = {}, weight_sums[size] = {}, bias_sums[size] = {};
  if (here)
    for (int i = 0; i < size; ++i)
      weight[i] = static_cast<Number>(static_cast<const Element*>(rows.weight)[column + i]);
  int buffer = 0;
  for (int64_t row = blockIdx.x; row < rows.rows; row += gridDim.x, buffer = 1 - buffer) {
    const int64_t at = row * rows.width + column;
    const Number mean = static_cast<const Number*>(rows.mean)[row],
                 scale = static_cast<const Number*>(rows.reciprocal_deviation)[row];
    Number normalised[size] = {}, gradient[size] = {};
    Sums<Number> mine = {0, 0};
    if (here) {
      const Some inputs = some(rows.input, at), grads = some(grad, at);
      for (int i = 0; i < size; ++i) {
        const Number of_output = static_cast<Number>(grads.element[i]);
        normalised[i] = (static_cast<Number>(inputs.element[i]) - mean) * scale;
        weight_sums[i] += of_output * normalised[i];
        bias_sums[i] += of_output;
        gradient[i] = of_output * weight[i];
        mine.gradient += gradient[i];
        mine.product += gradient[i] * normalised[i];
      }
    }
    const Sums<Number> all = of_block(mine, buffer);
    if (!here) continue;
    Some adds = {}, result;
    if (added != nullptr) adds = some(added, at);
    for (int i = 0; i < size; ++i)
      result.element[i] = static_cast<Element>(
          static_cast<Number>(adds.element[i]) +
          scale * (gradient[i] - (all.gradient + normalised[i] * all.product) / static_cast<Number>(rows.width)));
    *reinterpret_cast<Some*>(grad_input + at) = result;
  }
  if (!here) return;
  Number* const part = parts + int64_t{blockIdx.x} * 2 * rows.width + column;
  for (int i = 0; i < size; ++i) {
    part[i] = weight_sums[i];
    part[rows.width + i] = bias_sums[i];
  }
}

// A block takes 32 of the columns of the weight, then of the bias; a warp of it every 32nd part.
template <typename Number>
__global__ void sum_parts(NormParts parts, NormSum weight, NormSum bias) {
  __shared__ Number sums[kGroups][kWarp];
  const int group = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t column = int64_t{blockIdx.x} * kWarp + lane;
  const bool here = column < 2 * parts.width;
  Number sum = 0;
  if (here)
    for (int64_t part = group; part < parts.count; part += kGroups)
      sum += static_cast<const Number*>(parts.parts)[part * 2 * parts.width + column];
  sums[group][lane] = sum;
  __syncthreads();
  if (group > 0 || !here) return;
  for (int other = 1; other < kGroups; ++other) sum += sums[other][lane];
  const NormSum& to = column < parts.width ? weight : bias;
  Number& gradient = static_cast<Number*>(to.gradient)[column < parts.width ? column : column - parts.width];
  gradient = to.add ? gradient + sum : sum;
}

}  // namespace

bool layer_norm_rows_fit(c10::ScalarType type, int64_t width) {
  bool fits = false;
  dispatch(type, width, {}, [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
    fits = width > 0 && width <= kMostThreads * size;
  });
  return fits;
}

int64_t layer_norm_parts(int64_t rows) { return std::min<int64_t>(rows, kMostBlocks); }

void layer_norm_backward(const LayerNormRows& rows, const void* grad, const void* added, void* grad_input, void* parts,
                         int device) {
  if (rows.rows == 0) return;
  const auto begins = {rows.input, grad, added, static_cast<const void*>(grad_input)};
  dispatch(rows.type, rows.width, begins, [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
    const auto threads = static_cast<unsigned>((rows.width + size * kWarp - 1) / (size * kWarp) * kWarp);
    AXONN_ASSERT(threads <= kMostThreads, "rows of ", rows.width, " do not fit, or do not begin at ", kPackBytes,
                 " bytes");
    launch("layers.layer_norm", device, {static_cast<unsigned>(layer_norm_parts(rows.rows)), threads},
           backward<Element, size>, rows, static_cast<const Element*>(grad), static_cast<const Element*>(added),
           static_cast<Element*>(grad_input), static_cast<Wide<Element>*>(parts));
  });
}

void norm_sums(const NormParts& parts, const NormSum& weight, const NormSum& bias, int device) {
  const auto as = [&]<typename Number>(Number) {
    launch("layers.norm_sums", device, {static_cast<unsigned>((2 * parts.width + kWarp - 1) / kWarp), kSumThreads},
           sum_parts<Number>, parts, weight, bias);
  };
  parts.type == c10::ScalarType::Double ? as(double()) : as(float());
}

}  // namespace axonn
