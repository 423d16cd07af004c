#pragma once

// The words of CUDA that kernels of CUDA text use, in C++ for the host. Include it before the text;
// then AXONN_HOST_KERNEL(NAME) makes `launch_NAME(blocks, threads, arguments)` of a kernel, with
// pointers to the arguments, as cuLaunchKernel takes them.
//
// Threads run one after the other. A warp's run from the last lane to the first, so what
// __shfl_down_sync() asks a higher lane for is there already.
#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

#include "support/cuda_math.hpp"

#define __global__
#define __device__
#define __forceinline__ inline

namespace host_cuda {

struct Index {
  unsigned x = 0;
};
inline thread_local Index thread_index, block_index, block_size, grid_size;

// The numbers that the lanes of this warp gave to their shuffles: per shuffle, by lane.
struct Shuffle {
  double given[32] = {};
  bool there[32] = {};
};
inline thread_local std::vector<Shuffle> shuffles;
inline thread_local size_t next_shuffle = 0;

inline double shuffle_down(double value, int distance) {
  const unsigned lane = thread_index.x % 32, from = lane + static_cast<unsigned>(distance);
  if (next_shuffle == shuffles.size()) shuffles.emplace_back();
  Shuffle& shuffle = shuffles[next_shuffle++];
  shuffle.given[lane] = value;
  shuffle.there[lane] = true;
  if (from >= 32) return value;
  if (!shuffle.there[from]) std::abort();  // a higher lane did not take part
  return shuffle.given[from];
}

template <typename... Arguments, size_t... i>
void run(void (*kernel)(Arguments...), unsigned blocks, unsigned threads, void** arguments, std::index_sequence<i...>) {
  grid_size = {blocks};
  block_size = {threads};
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned warp = 0; warp < threads; warp += 32) {
      shuffles.clear();
      size_t needed = 0;
      for (unsigned lane = 32; lane-- > 0;) {
        block_index = {block};
        thread_index = {warp + lane};
        next_shuffle = 0;
        kernel(*static_cast<Arguments*>(arguments[i])...);
        if (lane == 31) needed = next_shuffle;
        if (next_shuffle != needed) std::abort();  // the lanes part
      }
    }
}

template <typename... Arguments>
void launch(void (*kernel)(Arguments...), unsigned blocks, unsigned threads, void** arguments) {
  run(kernel, blocks, threads, arguments, std::index_sequence_for<Arguments...>{});
}

}  // namespace host_cuda

#define threadIdx host_cuda::thread_index
#define blockIdx host_cuda::block_index
#define blockDim host_cuda::block_size
#define gridDim host_cuda::grid_size

inline double __shfl_down_sync(unsigned, double value, int distance) {
  return host_cuda::shuffle_down(value, distance);
}

#define AXONN_HOST_KERNEL(NAME)                                                        \
  extern "C" void launch_##NAME(unsigned blocks, unsigned threads, void** arguments) { \
    host_cuda::launch(axonn::coconet::NAME, blocks, threads, arguments);               \
  }
