// The host runs a kernel as a GPU may run it: a barrier that is missing, or that some threads do
// not reach, is found.
#include "gpu/host/host_cuda.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace {

using host_cuda::Order;

enum class Fault { none, barrier_missing, barrier_in_branch };

// Sums 256 numbers per block: shuffles in a warp, then the warps' sums through shared memory.
template <Fault fault>
__global__ void sum_blocks(const float* in, float* out) {
  __shared__ float parts[8];
  float sum = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(~0u, sum, mask);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  if (fault == Fault::none || (fault == Fault::barrier_in_branch && threadIdx.x < 100)) __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < 8 ? parts[threadIdx.x] : 0;
    for (unsigned mask = 4; mask > 0; mask /= 2) sum += __shfl_xor_sync(~0u, sum, mask);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}

template <Fault fault>
std::vector<float> sums(Order order) {
  std::vector<float> in(3 * 256), out(3, -1);
  std::iota(in.begin(), in.end(), 0.0f);
  host_cuda::order = order;
  axonn::launch("test", 0, {3, 256}, sum_blocks<fault>, in.data(), out.data());
  return out;
}

using host_cuda::kOrders;

TEST(HostCuda, BarriersAndShufflesGiveTheSumInEveryOrder) {
  for (const Order order : kOrders) EXPECT_EQ(sums<Fault::none>(order), (std::vector<float>{32640, 98176, 163712}));
}

TEST(HostCuda, AMissingBarrierIsFound) {
  const auto right = sums<Fault::none>(Order::ascending);
  int wrong = 0;
  for (const Order order : kOrders) wrong += sums<Fault::barrier_missing>(order) != right;
  EXPECT_GT(wrong, 0);
}

TEST(HostCuda, ABarrierThatSomeThreadsDoNotReachIsFound) {
  for (const Order order : kOrders) EXPECT_THROW(sums<Fault::barrier_in_branch>(order), std::logic_error);
}

}  // namespace
