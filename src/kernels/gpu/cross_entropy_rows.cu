#include "kernels/gpu/cross_entropy_rows.hpp"

#include <cmath>
#include <limits>

#include "kernels/gpu/launch.cuh"
#include "kernels/gpu/packs.cuh"

namespace axonn {
namespace {

constexpr int kThreads = 256, kWarp = 32, kWarps = kThreads / kWarp;

template <typename Number>
constexpr Number kInfinity = std::numeric_limits<Number>::infinity();
template <typename Number>
constexpr Number kNaN = std::numeric_limits<Number>::quiet_NaN();

// sum of exp(x - greatest) over some numbers x. Without numbers: -infinity and 0.
template <typename Number>
struct Exponentials {
  Number greatest, sum;
};

// The number subtracted before exp(): never -infinity, so that exp(-infinity) counts as 0.
template <typename Number>
__device__ Number shift(Number greatest) {
  return greatest == -kInfinity<Number> ? Number(0) : greatest;
}

template <typename Number>
__device__ Exponentials<Number> joined(const Exponentials<Number>& a, const Exponentials<Number>& b) {
  const Number greatest = a.greatest > b.greatest ? a.greatest : b.greatest, by = shift(greatest);
  return {greatest, a.sum * std::exp(a.greatest - by) + b.sum * std::exp(b.greatest - by)};
}

// Of all lanes of a warp, for each of them.
template <typename Number>
__device__ Exponentials<Number> of_warp(Exponentials<Number> mine) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2)
    mine = joined(mine, {__shfl_xor_sync(~0u, mine.greatest, mask), __shfl_xor_sync(~0u, mine.sum, mask)});
  return mine;
}

// Of all threads of the block, for its first warp. All threads call it, once.
template <typename Number>
__device__ Exponentials<Number> of_block(Exponentials<Number> mine) {
  __shared__ Number greatest[kWarps], sums[kWarps];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  mine = of_warp(mine);
  if (lane == 0) {
    greatest[warp] = mine.greatest;
    sums[warp] = mine.sum;
  }
  __syncthreads();
  if (warp > 0) return mine;
  return of_warp(lane < kWarps ? Exponentials<Number>{greatest[lane], sums[lane]}
                               : Exponentials<Number>{-kInfinity<Number>, 0});
}

// A block takes one row.
template <typename Element>
__device__ Element* logits_of_block(const LogitRows& rows) {
  return static_cast<Element*>(rows.logits) + blockIdx.x * rows.width;
}

template <typename Element, int size>
__global__ void forward(LogitRows rows, Wide<Element>* log_sums, Wide<Element>* target_logits) {
  using Number = Wide<Element>;
  const Element* const logits = logits_of_block<Element>(rows);
  Exponentials<Number> mine = {-kInfinity<Number>, 0};
  for (int64_t begin = int64_t{threadIdx.x} * size; begin < rows.columns; begin += int64_t{kThreads} * size) {
    const auto pack = *reinterpret_cast<const Pack<Element, size>*>(logits + begin);
    Number value[size], greatest = mine.greatest;
    for (int i = 0; i < size; ++i) {
      value[i] = begin + i < rows.columns ? static_cast<Number>(pack.element[i]) : -kInfinity<Number>;
      if (value[i] > greatest) greatest = value[i];
    }
    const Number by = shift(greatest);
    Number sum = mine.sum * std::exp(mine.greatest - by);
    for (int i = 0; i < size; ++i) sum += std::exp(value[i] - by);
    mine = {greatest, sum};
  }
  mine = of_block(mine);
  if (threadIdx.x != 0) return;
  const int64_t target = rows.targets[blockIdx.x];
  const bool known = target == rows.ignored || (target >= 0 && target < rows.vocabulary);
  const bool here = target >= rows.first && target < rows.first + rows.columns;
  log_sums[blockIdx.x] = known ? mine.greatest + std::log(mine.sum) : kNaN<Number>;
  target_logits[blockIdx.x] = here ? static_cast<Number>(logits[target - rows.first]) : Number(0);
}

template <typename Element, int size>
__global__ void backward(LogitRows rows, const Wide<Element>* log_sums, const Wide<Element>* scale) {
  using Number = Wide<Element>;
  Element* const logits = logits_of_block<Element>(rows);
  const Number log_sum = log_sums[blockIdx.x], factor = *scale;
  const int64_t target = rows.targets[blockIdx.x], column_of_target = target - rows.first;
  const int64_t columns = target == rows.ignored ? 0 : rows.columns;
  for (int64_t begin = int64_t{threadIdx.x} * size; begin < rows.width; begin += int64_t{kThreads} * size) {
    auto& pack = *reinterpret_cast<Pack<Element, size>*>(logits + begin);
    Pack<Element, size> gradient;
    for (int i = 0; i < size; ++i) {
      const Number probability = std::exp(static_cast<Number>(pack.element[i]) - log_sum);
      const Number one = begin + i == column_of_target ? Number(1) : Number(0);
      gradient.element[i] = static_cast<Element>(begin + i < columns ? factor * (probability - one) : Number(0));
    }
    pack = gradient;
  }
}

LaunchSize size_for(const LogitRows& rows) { return {static_cast<unsigned>(rows.rows), kThreads}; }

template <typename Pass>
void dispatch(const LogitRows& rows, const Pass& pass) {
  dispatch(rows.type, rows.width, {rows.logits}, pass);
}

}  // namespace

void cross_entropy_forward(const LogitRows& rows, void* log_sums, void* target_logits, int device) {
  if (rows.rows == 0) return;
  dispatch(rows, [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
    using Number = Wide<Element>;
    launch("layers.cross_entropy", device, size_for(rows), forward<Element, size>, rows, static_cast<Number*>(log_sums),
           static_cast<Number*>(target_logits));
  });
}

void cross_entropy_backward(const LogitRows& rows, const void* log_sums, const void* scale, int device) {
  if (rows.rows == 0) return;
  dispatch(rows, [&]<typename Element, int size>(Element, std::integral_constant<int, size>) {
    using Number = Wide<Element>;
    launch("layers.cross_entropy", device, size_for(rows), backward<Element, size>, rows,
           static_cast<const Number*>(log_sums), static_cast<const Number*>(scale));
  });
}

}  // namespace axonn
