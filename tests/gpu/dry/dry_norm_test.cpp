// The norm of fp32 gradients on a GPU needs no copy of them in fp64.
#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "axonn/overlap/step/sum_of_squares.hpp"

namespace axonn {
namespace {

int64_t peak_of_a_norm(at::ScalarType type, int64_t elements) {
  const at::Tensor gradients = at::zeros({elements}, at::TensorOptions().device(c10::kCUDA).dtype(type));
  auto* const allocator = c10::getDeviceAllocator(c10::kCUDA);
  allocator->resetPeakStats(0);
  const int64_t before = allocator->getDeviceStats(0).allocated_bytes[0].current;
  EXPECT_EQ(sum_of_squares(gradients).scalar_type(), at::kDouble);
  return allocator->getDeviceStats(0).allocated_bytes[0].peak - before;
}

TEST(NormOnAGpu, NeedsNoCopyOfTheGradients) {
  at::globalContext().lazyInitDevice(c10::kCUDA);
  constexpr int64_t kElements = int64_t{1} << 28;
  for (const at::ScalarType type : {at::kFloat, at::kDouble})
    EXPECT_LT(peak_of_a_norm(type, kElements), 1 << 20) << type;
}

}  // namespace
}  // namespace axonn
