// The kernels of the fused LayerNorm, run on the host, give the numbers of fp64.
#include "layers/fused/layer_norm_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gpu/host/host_values.hpp"
#include "layers/ops/packs.cuh"

namespace axonn {
namespace {

using host_cuda::kOrders;
using host_cuda::kRounding;
using host_cuda::kType;
using host_cuda::Order;
using host_cuda::Values;

// One backward pass, and what it must give.
template <typename Element>
struct Pass {
  using Wide = axonn::Wide<Element>;

  Pass(int64_t rows_, int64_t width_, int64_t skip = 0)
      : rows(rows_),
        width(width_),
        input(rows * width, 0.1, skip),
        grad(rows * width, 2.3, skip),
        added(rows * width, 4.5, skip),
        weight(width, 0.7, skip),
        result(rows * width, 0, skip) {
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < width; ++i) sum += input[row * width + i];
      for (int64_t i = 0; i < width; ++i) squares += std::pow(input[row * width + i] - sum / width, 2);
      mean.push_back(static_cast<Wide>(sum / width));
      scale.push_back(static_cast<Wide>(1 / std::sqrt(squares / width + 1e-5)));
    }
  }

  NormRows norm_rows() {
    return {.type = kType<Element>,
            .rows = rows,
            .width = width,
            .input = input.begin(),
            .mean = mean.data(),
            .reciprocal_deviation = scale.data(),
            .weight = weight.begin()};
  }

  void run(bool adds, bool sums_add) {
    std::vector<Wide> parts(static_cast<size_t>(layer_norm_parts(rows) * 2 * width), -7);
    layer_norm_backward(norm_rows(), grad.begin(), adds ? added.begin() : nullptr, result.begin(), parts.data(), 0);
    weight_sums.assign(static_cast<size_t>(width), 3);
    bias_sums.assign(static_cast<size_t>(width), 5);
    norm_sums({kType<Element>, layer_norm_parts(rows), width, parts.data()}, {weight_sums.data(), sums_add},
              {bias_sums.data(), !sums_add}, 0);
  }

  double normalised(int64_t row, int64_t i) { return (input[row * width + i] - mean[row]) * scale[row]; }

  void check(bool adds, bool sums_add, const std::string& what) {
    const double error = kRounding<Element>, wide_error = kRounding<Wide>;
    double terms = 1;  // their sizes in a sum of the weight's or the bias's gradient, on average
    std::vector<double> of_weight(static_cast<size_t>(width), sums_add ? 3 : 0),
        of_bias(static_cast<size_t>(width), sums_add ? 0 : 5);
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0, product = 0;
      for (int64_t i = 0; i < width; ++i) {
        const double g = grad[row * width + i];
        sum += g * weight[i];
        product += g * weight[i] * normalised(row, i);
        of_weight[i] += g * normalised(row, i);
        of_bias[i] += g;
        terms += std::abs(g) * (1 + std::abs(normalised(row, i))) / static_cast<double>(width);
      }
      for (int64_t i = 0; i < width; ++i) {
        const int64_t at = row * width + i;
        const double need =
            scale[row] * (grad[at] * weight[i] - (sum + normalised(row, i) * product) / width) + (adds ? added[at] : 0);
        ASSERT_NEAR(result[at], need, error * (1 + std::abs(need)) + width * wide_error)
            << what << ", row " << row << ", " << i;
      }
    }
    for (int64_t i = 0; i < width; ++i) {
      ASSERT_NEAR(weight_sums[i], of_weight[i], 16 * terms * wide_error) << what << ", weight " << i;
      ASSERT_NEAR(bias_sums[i], of_bias[i], 16 * terms * wide_error) << what << ", bias " << i;
    }
  }

  int64_t rows, width;
  Values<Element> input, grad, added, weight, result;
  std::vector<Wide> mean, scale, weight_sums, bias_sums;
};

template <typename Element>
class LayerNormRows : public testing::Test {};
using Elements = testing::Types<double, float, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(LayerNormRows, Elements);

// Rows, width, elements before them: packs of every type, a warp that is not full, several warps,
// rows that are not aligned.
struct Size {
  int64_t rows, width, skip;
};
constexpr Size kSizes[] = {{3, 1, 0}, {5, 7, 1}, {2, 40, 0}, {4, 264, 0}, {3, 77, 3}};

TYPED_TEST(LayerNormRows, BackwardEqualsFp64InEveryOrder) {
  for (const auto& [rows, width, skip] : kSizes)
    for (const Order order : kOrders)
      for (const bool adds : {false, true}) {
        host_cuda::order = order;
        Pass<TypeParam> pass(rows, width, skip);
        pass.run(adds, /*sums_add=*/adds);
        pass.check(adds, adds, std::to_string(rows) + " rows of " + std::to_string(width));
      }
}

// More rows than blocks.
TEST(LayerNormRowsBits, AreTheSameInEveryOrder) {
  std::vector<std::vector<float>> weights, results;
  for (const Order order : kOrders) {
    host_cuda::order = order;
    Pass<float> pass(1100, 20);
    pass.run(/*adds=*/true, /*sums_add=*/false);
    pass.check(/*adds=*/true, /*sums_add=*/false, "many rows");
    weights.push_back(pass.weight_sums);
    results.emplace_back(pass.result.begin(), pass.result.begin() + 1100 * 20);
  }
  for (size_t i = 1; i < weights.size(); ++i) {
    EXPECT_EQ(weights[0], weights[i]);
    EXPECT_EQ(results[0], results[i]);
  }
}

TEST(LayerNormRowsFit, ABlockOfThreads) {
  EXPECT_TRUE(layer_norm_rows_fit(c10::kBFloat16, 4096));
  EXPECT_FALSE(layer_norm_rows_fit(c10::kBFloat16, 4104));
  EXPECT_TRUE(layer_norm_rows_fit(c10::kFloat, 2048));
  EXPECT_FALSE(layer_norm_rows_fit(c10::kFloat, 2052));
  EXPECT_TRUE(layer_norm_rows_fit(c10::kFloat, 511));
  EXPECT_FALSE(layer_norm_rows_fit(c10::kFloat, 513));
  EXPECT_FALSE(layer_norm_rows_fit(c10::kFloat, 0));
}

}  // namespace
}  // namespace axonn
