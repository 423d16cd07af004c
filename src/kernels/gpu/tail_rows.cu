#include "kernels/gpu/tail_rows.hpp"

#include <algorithm>

#include "kernels/gpu/launch.cuh"
#include "kernels/gpu/packs.cuh"

namespace axonn {
namespace {

constexpr int kThreads = 256, kMostBlocks = 8192;

template <typename Element, int size>
__global__ void add(TailRows tail, int64_t packs) {
  using Number = Wide<Element>;
  using Some = Pack<Element, size>;
  const int64_t of_row = tail.width / size, step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < packs; i += step) {
    Some bias = {}, mask = {}, residual = {};
    if (tail.bias != nullptr) bias = static_cast<const Some*>(tail.bias)[i % of_row];
    if (tail.mask != nullptr) mask = static_cast<const Some*>(tail.mask)[i];
    if (tail.residual != nullptr) residual = static_cast<const Some*>(tail.residual)[i];
    Some& sums = static_cast<Some*>(tail.sums)[i];
    for (int j = 0; j < size; ++j) {
      Number value = static_cast<Number>(sums.element[j]) + static_cast<Number>(bias.element[j]);
      if (tail.mask != nullptr) value *= static_cast<Number>(mask.element[j]);
      sums.element[j] = static_cast<Element>(value + static_cast<Number>(residual.element[j]));
    }
  }
}

}  // namespace

void add_tail(const TailRows& tail, int device) {
  if (tail.rows * tail.width == 0) return;
  dispatch(tail.type, tail.width, {tail.sums, tail.bias, tail.mask, tail.residual},
           [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
             const int64_t packs = tail.rows * tail.width / size;
             const auto blocks =
                 static_cast<unsigned>(std::min<int64_t>((packs + kThreads - 1) / kThreads, kMostBlocks));
             launch("layers.tail", device, {blocks, kThreads}, add<Element, size>, tail, packs);
           });
}

}  // namespace axonn
