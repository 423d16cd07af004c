// The kernels of the fused LayerNorm give the numbers of fp64.
#include "kernels/gpu/layer_norm_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_case.hpp"
#include "gpu/kernels/kernel_memory.hpp"
#include "gpu/kernels/kernel_values.hpp"
#include "kernels/gpu/packs.cuh"

namespace axonn {
namespace {

using namespace kernel_test;

// Rows, width, elements before them.
struct Size {
  int64_t rows, width, skip;
};

// One backward pass, and what it must give.
template <typename Element>
struct Pass {
  using Wide = axonn::Wide<Element>;

  explicit Pass(const Size& size)
      : rows(size.rows),
        width(size.width),
        input("input", rows * width, waves(0.1), size.skip),
        grad("gradient", rows * width, waves(2.3), size.skip),
        added("added gradient", rows * width, waves(4.5), size.skip),
        weight("weight", width, waves(0.7), size.skip),
        result("gradient of the input", rows * width, all(7), size.skip),
        mean("mean", rows, all(0)),
        scale("reciprocal deviation", rows, all(0)),
        weight_sums("gradient of the weight", width, all(3)),
        bias_sums("gradient of the bias", width, all(5)) {
    const auto numbers = static_cast<double>(width);
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < width; ++i) sum += input[row * width + i];
      for (int64_t i = 0; i < width; ++i) squares += std::pow(input[row * width + i] - sum / numbers, 2);
      mean.set(row, sum / numbers);
      scale.set(row, 1 / std::sqrt(squares / numbers + 1e-5));
    }
  }

  LayerNormRows norm_rows() {
    return {.type = kType<Element>,
            .rows = rows,
            .width = width,
            .input = input.in(),
            .mean = mean.in(),
            .reciprocal_deviation = scale.in(),
            .weight = weight.in()};
  }

  void run(bool adds, bool sums_add) {
    Values<Wide> parts("parts", layer_norm_parts(rows) * 2 * width, all(-7));
    layer_norm_backward(norm_rows(), grad.in(), adds ? added.in() : nullptr, result.out(), parts.out(), 0);
    norm_sums({kType<Element>, layer_norm_parts(rows), width, parts.out()}, {weight_sums.out(), sums_add},
              {bias_sums.out(), !sums_add}, 0);
  }

  double normalised(int64_t row, int64_t i) const { return (input[row * width + i] - mean[row]) * scale[row]; }

  void check(bool adds, bool sums_add) const {
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
            << "row " << row << ", column " << i;
      }
    }
    for (int64_t i = 0; i < width; ++i) {
      ASSERT_NEAR(weight_sums[i], of_weight[i], 16 * terms * wide_error) << "weight " << i;
      ASSERT_NEAR(bias_sums[i], of_bias[i], 16 * terms * wide_error) << "bias " << i;
    }
  }

  int64_t rows, width;
  Values<Element> input, grad, added, weight, result;
  Values<Wide> mean, scale, weight_sums, bias_sums;
};

// The same bits in each order and time.
template <typename Element>
void expect_fp64(const Size& size, bool adds, bool sums_add, const Runs& runs = {}) {
  const Case named("layer_norm_backward and norm_sums, " + std::to_string(size.rows) + " rows of " +
                   std::to_string(size.width) + " from element " + std::to_string(size.skip) +
                   (adds ? ", added, " : ", ") + kName<Element>);
  std::vector<std::vector<std::byte>> sums, results;
  in_each_order(runs, [&] {
    Pass<Element> pass(size);
    pass.run(adds, sums_add);
    compare([&] { pass.check(adds, sums_add); });
    sums.push_back(pass.weight_sums.bits());
    results.push_back(pass.result.bits());
  });
  compare([&] {
    for (size_t i = 1; i < sums.size(); ++i)
      EXPECT_TRUE(sums[0] == sums[i] && results[0] == results[i]) << "not the same bits each time";
  });
}

template <typename Element>
class LayerNormRows : public testing::Test {};
TYPED_TEST_SUITE(LayerNormRows, Elements);

// Packs of every type, a warp that is not full, several warps, rows that are not aligned.
constexpr Size kSizes[] = {{3, 1, 0}, {5, 7, 1}, {2, 40, 0}, {4, 264, 0}, {3, 77, 3}};

TYPED_TEST(LayerNormRows, BackwardEqualsFp64) {
  for (const Size& size : kSizes)
    for (const bool adds : {false, true}) expect_fp64<TypeParam>(size, adds, /*sums_add=*/adds);
}

TYPED_TEST(LayerNormRows, BackwardOfUsersRowsEqualsFp64) {
  for (const int64_t width : {768, 1280, 1600})
    if (layer_norm_rows_fit(kType<TypeParam>, width)) expect_fp64<TypeParam>({3, width, 0}, true, false, kLarge);
}

// More rows than blocks, of several warps.
TEST(LayerNormRowsLarge, BackwardEqualsFp64) { expect_fp64<float>({1100, 264, 0}, true, false, {.on_host = 2}); }

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
