#include <cmath>
#include <limits>

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "axonn/overlap/step/sum_of_squares.hpp"

namespace axonn {
namespace {

TEST(SumOfSquares, IsThatOfFp64) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const int64_t numel : {0, 1, 1000, 1024, 1025, 100000}) {
      const at::Tensor values = at::randn({numel}).to(type);
      const double need = values.to(at::kDouble).square().sum().item<double>();
      const at::Tensor got = sum_of_squares(values);
      EXPECT_EQ(got.scalar_type(), at::kDouble);
      EXPECT_NEAR(got.item<double>(), need, (type == at::kFloat ? 1e-6 : 1e-12) * need) << numel;
    }
}

TEST(SumOfSquares, SeesEveryElement) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (const int64_t place : {0, 1023, 1024, 2047, 2048, 2999}) {
      at::Tensor values = at::zeros({3000});
      values[place] = bad;
      EXPECT_FALSE(std::isfinite(sum_of_squares(values).item<double>())) << place;
      values[place] = 2;
      EXPECT_EQ(sum_of_squares(values).item<double>(), 4) << place;
    }
}

}  // namespace
}  // namespace axonn
