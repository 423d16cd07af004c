// CUDA for a kernel's own source on the host, where g++ compiles it in the place of nvcc. The
// threads of a block are fibers that take turns at barriers and shuffles; blocks run one after the
// other.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include <vector_functions.h>
#include <vector_types.h>

#include "support/cuda_math.hpp"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __forceinline__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __shared__ static  // one block runs at a time
#define __forceinline__ inline
#define __launch_bounds__(...)

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace host_cuda {

// The order of warps, and of a warp's threads between two barriers; if it is descending, of blocks
// too. Each warp runs as far as the next barrier of the block before another one goes on. A kernel
// without races gives the same bits in each order.
enum class Order { ascending, descending, odd_first };
inline constexpr Order kOrders[] = {Order::ascending, Order::descending, Order::odd_first};
inline Order order = Order::ascending;

// Runs `thread` for every thread of every block (one dim). std::logic_error when some threads of a
// block, or of a warp in a shuffle, come to a barrier that others never reach.
void run(unsigned blocks, unsigned threads, const std::function<void()>& thread);

void block_barrier();
void warp_barrier();
uint64_t& lane_value(unsigned lane);  // in this warp, for shuffles

template <typename T>
T from_lane(T value, unsigned lane) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  T result;
  std::memcpy(&lane_value(threadIdx.x % 32), &value, sizeof value);
  warp_barrier();
  std::memcpy(&result, &lane_value(lane), sizeof result);
  warp_barrier();
  return result;
}

inline unsigned ballot(bool mine) {
  lane_value(threadIdx.x % 32) = mine ? 1 : 0;
  warp_barrier();
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane) bits |= static_cast<unsigned>(lane_value(lane)) << lane;
  warp_barrier();
  return bits;
}

}  // namespace host_cuda

inline void __syncthreads() { host_cuda::block_barrier(); }
inline void __threadfence() {}
inline void __syncwarp(unsigned = ~0u) { host_cuda::warp_barrier(); }
template <typename T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return host_cuda::from_lane(value, threadIdx.x % 32 ^ mask);
}
template <typename T>
T __shfl_sync(unsigned, T value, unsigned lane) {
  return host_cuda::from_lane(value, lane);
}
inline unsigned __ballot_sync(unsigned, bool mine) { return host_cuda::ballot(mine); }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int atomicAdd(int* to, int value) { return std::exchange(*to, *to + value); }

namespace axonn {

struct LaunchSize {
  unsigned blocks;
  unsigned threads;
};

template <typename... Parameters, typename... Arguments>
void launch(const char*, int, LaunchSize size, void (*kernel)(Parameters...), const Arguments&... arguments) {
  host_cuda::run(size.blocks, size.threads, [&] { kernel(arguments...); });
}

}  // namespace axonn
