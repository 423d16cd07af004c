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

// Two warps exchange numbers twice, through one place in memory or through two. Shuffles do not
// keep one from running ahead of the other.
template <int places>
__global__ void exchange_twice(const float* in, float* out) {
  __shared__ float given[places][2];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (unsigned round = 0; round < 2; ++round) {
    const float mine = __shfl_sync(~0u, in[2 * round + warp], 0);
    if (lane == 0) given[round % places][warp] = mine;
    __syncthreads();
    if (lane == 0) out[2 * round + warp] = given[round % places][1 - warp];
  }
}

template <int places>
std::vector<float> exchanged(Order order) {
  const std::vector<float> in{1, 2, 3, 4};
  std::vector<float> out(4, -1);
  host_cuda::order = order;
  axonn::launch("test", 0, {1, 64}, exchange_twice<places>, in.data(), out.data());
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

TEST(HostCuda, AWarpThatWritesWhatOthersHaveNotReadIsFound) {
  const std::vector<float> right{2, 1, 4, 3};
  int wrong = 0;
  for (const Order order : kOrders) {
    EXPECT_EQ(exchanged<2>(order), right);
    wrong += exchanged<1>(order) != right;
  }
  EXPECT_GT(wrong, 0);
}

TEST(HostCuda, ABarrierThatSomeThreadsDoNotReachIsFound) {
  for (const Order order : kOrders) EXPECT_THROW(sums<Fault::barrier_in_branch>(order), std::logic_error);
}

}  // namespace
