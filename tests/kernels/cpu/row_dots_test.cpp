#include "kernels/cpu/row_dots.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace axonn {
namespace {

constexpr std::pair<int64_t, int64_t> kSizes[] = {{1, 1}, {7, 63}, {33, 64}, {130, 577}, {2, 4099}};

// The product in fp64.
at::Tensor expected(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  return at::mm(rows.to(at::kDouble), weight.to(at::kDouble).t()) + bias.to(at::kDouble);
}

TEST(RowDots, AreTheProduct) {
  torch::manual_seed(1);
  for (const auto& [type, bound] : {std::pair{at::kFloat, 1e-6}, {at::kBFloat16, 4e-3}})
    for (const auto& [n, k] : kSizes)
      for (int64_t count = 1; count <= 4; ++count) {
        const at::Tensor rows = torch::randn({count, k}).to(type), weight = torch::randn({n, k}).to(type),
                         bias = torch::randn({n}).to(type);
        ASSERT_TRUE(has_row_dots(rows, weight));
        const at::Tensor whole = expected(rows, weight, bias),
                         scale = at::mm(rows.abs().to(at::kDouble), weight.abs().to(at::kDouble).t());
        EXPECT_LE(((row_dots(rows, weight, bias).to(at::kDouble) - whole).abs() / (scale + 1)).max().item<double>(),
                  bound)
            << count << " x " << k << " by " << n;
        EXPECT_TRUE(row_dots(rows, weight).equal(row_dots(rows, weight, at::zeros({n}, type))));
      }
}

TEST(RowDots, DoNotDependOnOtherRowsAndThreads) {
  const at::Tensor rows = torch::randn({4, 700}), weight = torch::randn({900, 700});
  at::set_num_threads(1);
  const at::Tensor all = row_dots(rows, weight);
  for (int64_t i = 0; i < 4; ++i) EXPECT_TRUE(row_dots(rows.narrow(0, i, 1), weight).equal(all.narrow(0, i, 1)));
  at::set_num_threads(4);
  EXPECT_TRUE(row_dots(rows, weight).equal(all));
  EXPECT_TRUE(row_dots(rows.t().contiguous().t(), weight).equal(all));
  at::set_num_threads(1);
}

TEST(RowDots, AreForFewRowsOfOneType) {
  const at::Tensor weight = torch::randn({8, 6});
  EXPECT_FALSE(has_row_dots(torch::randn({5, 6}), weight));
  EXPECT_FALSE(has_row_dots(torch::randn({0, 6}), weight));
  EXPECT_FALSE(has_row_dots(torch::randn({1, 8}), weight.t()));
  EXPECT_FALSE(has_row_dots(torch::randn({1, 6}).to(at::kDouble), weight.to(at::kDouble)));
  EXPECT_FALSE(has_row_dots(torch::randn({1, 6}).to(at::kBFloat16), weight));
}

}  // namespace
}  // namespace axonn
