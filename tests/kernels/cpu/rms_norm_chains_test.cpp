#include "kernels/cpu/rms_norm_chains.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace axonn {
namespace {

TEST(RmsNormOnCpu, HasTheBitsOfItsPasses) {
  torch::manual_seed(1);
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t features : {1, 7, 64, 2049}) {
      const at::Tensor input = torch::randn({70, 2, features}).mul(3).to(type),
                       weight = torch::randn({features}).to(type);
      const auto [output, roots] = rms_norm_on_cpu(input, weight, 1e-3);
      const at::Tensor expected = square_sums_on_cpu(input).div_(static_cast<double>(features)).add_(1e-3).rsqrt_();
      EXPECT_TRUE(roots.equal(expected)) << type << ", " << features << " features";
      EXPECT_TRUE(output.equal(rms_normalised_on_cpu(input, expected, weight)))
          << type << ", " << features << " features";
    }
}

TEST(RmsNormOnCpu, TakesRowsThatAreNotContiguous) {
  const at::Tensor input = torch::randn({6, 8}).t(), weight = torch::randn({6});
  EXPECT_TRUE(
      rms_norm_on_cpu(input, weight, 1e-5).output.equal(rms_norm_on_cpu(input.contiguous(), weight, 1e-5).output));
}

}  // namespace
}  // namespace axonn
