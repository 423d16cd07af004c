// The kernels of the fused cross entropy, run on the host, give the numbers of fp64.
#include "layers/ops/cross_entropy_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "gpu/host/host_cuda.hpp"

namespace axonn {
namespace {

using host_cuda::kOrders;
using host_cuda::Order;
constexpr int64_t kRows = 5, kIgnored = -100, kIgnoredRow = 3;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

template <typename Element>
struct Kind;
template <>
struct Kind<double> {
  using Wide = double;
  static constexpr auto type = c10::ScalarType::Double;
  static constexpr double sum_error = 1e-14, gradient_error = 1e-14;
};
template <>
struct Kind<float> {
  using Wide = float;
  static constexpr auto type = c10::ScalarType::Float;
  static constexpr double sum_error = 2e-7, gradient_error = 2e-6;
};
template <>
struct Kind<c10::BFloat16> {
  using Wide = float;
  static constexpr auto type = c10::ScalarType::BFloat16;
  static constexpr double sum_error = 2e-7, gradient_error = 4e-3;
};
template <>
struct Kind<c10::Half> {
  using Wide = float;
  static constexpr auto type = c10::ScalarType::Half;
  static constexpr double sum_error = 2e-7, gradient_error = 5e-4;
};

// A part of a vocabulary with targets before it, in it and behind it, and padding of NaN. It begins
// `skip` elements into its memory, and ends with it.
template <typename Element>
struct Part {
  using Wide = typename Kind<Element>::Wide;

  Part(int64_t columns_, int64_t width_, int64_t skip_ = 0)
      : columns(columns_), width(width_), skip(skip_), memory(new Element[skip + kRows * width]) {
    for (int64_t i = 0; i < skip; ++i) memory[i] = static_cast<Element>(0.0f);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t column = 0; column < width; ++column)
        at(row, column) = static_cast<Element>(
            static_cast<float>(column < columns ? 15 * std::sin(static_cast<double>(row * 977 + column * 31)) : kNaN));
    targets = {first, first + columns - 1, 3, kIgnored, first + columns};
    if (columns == 0) targets[1] = 0;
  }

  Element& at(int64_t row, int64_t column) { return memory[skip + row * width + column]; }
  double logit(int64_t row, int64_t column) { return static_cast<double>(static_cast<Wide>(at(row, column))); }

  LogitRows rows() {
    return {.logits = memory.get() + skip,
            .type = Kind<Element>::type,
            .rows = kRows,
            .width = width,
            .columns = columns,
            .first = first,
            .vocabulary = first + columns + 1,
            .targets = targets.data(),
            .ignored = kIgnored};
  }

  double log_sum(int64_t row) {
    double greatest = -kInfinity, sum = 0;
    for (int64_t column = 0; column < columns; ++column) greatest = std::max(greatest, logit(row, column));
    for (int64_t column = 0; column < columns; ++column) sum += std::exp(logit(row, column) - greatest);
    return columns > 0 ? greatest + std::log(sum) : -kInfinity;
  }

  static constexpr int64_t first = 11;
  int64_t columns, width, skip;
  std::unique_ptr<Element[]> memory;  // the address sanitizer knows where it ends
  std::vector<int64_t> targets;
};

template <typename Element>
class CrossEntropyRows : public testing::Test {};
using Elements = testing::Types<double, float, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(CrossEntropyRows, Elements);

// Columns, width, elements before the rows: packs of every type, their remains, more than a turn of
// a block, rows that are not aligned, and no columns.
struct Size {
  int64_t columns, width, skip;
};
constexpr Size kSizes[] = {{1, 1, 0},       {7, 7, 1},       {33, 40, 0}, {600, 640, 0},
                           {5003, 5056, 0}, {2500, 2503, 1}, {0, 8, 0}};

TYPED_TEST(CrossEntropyRows, ForwardEqualsFp64InEveryOrder) {
  using Wide = typename Kind<TypeParam>::Wide;
  for (const auto& [columns, width, skip] : kSizes)
    for (const Order order : kOrders) {
      host_cuda::order = order;
      Part<TypeParam> part(columns, width, skip);
      std::vector<Wide> sums(kRows, -1), targets(kRows, -1);
      cross_entropy_forward(part.rows(), sums.data(), targets.data(), 0);
      for (int64_t row = 0; row < kRows; ++row) {
        const double need = part.log_sum(row);
        if (columns == 0)
          EXPECT_EQ(sums[row], need);
        else
          EXPECT_NEAR(sums[row], need, Kind<TypeParam>::sum_error * std::max(1.0, std::abs(need)))
              << columns << " columns, row " << row;
        const int64_t column = part.targets[row] - part.first;
        EXPECT_EQ(targets[row], column >= 0 && column < columns ? part.logit(row, column) : 0);
      }
    }
}

TYPED_TEST(CrossEntropyRows, BackwardEqualsFp64InEveryOrder) {
  using Wide = typename Kind<TypeParam>::Wide;
  for (const auto& [columns, width, skip] : kSizes)
    for (const Order order : kOrders) {
      host_cuda::order = order;
      Part<TypeParam> part(columns, width, skip), given(columns, width, skip);
      std::vector<Wide> sums(kRows);
      for (int64_t row = 0; row < kRows; ++row) sums[row] = static_cast<Wide>(columns > 0 ? part.log_sum(row) : 1);
      const Wide scale = 3;
      cross_entropy_backward(part.rows(), sums.data(), &scale, 0);
      for (int64_t row = 0; row < kRows; ++row) {
        const double log_sum = given.log_sum(row);
        for (int64_t column = 0; column < width; ++column) {
          const bool counts = column < columns && row != kIgnoredRow, one = column == part.targets[row] - part.first;
          const double need = counts ? 3 * (std::exp(given.logit(row, column) - log_sum) - (one ? 1 : 0)) : 0;
          ASSERT_NEAR(part.logit(row, column), need, 3 * Kind<TypeParam>::gradient_error)
              << columns << " columns, row " << row << ", column " << column;
        }
      }
    }
}

TYPED_TEST(CrossEntropyRows, LogitsThatAreNoNumbersAreSeenInTheSum) {
  using Wide = typename Kind<TypeParam>::Wide;
  Part<TypeParam> part(600, 640);
  part.at(0, 599) = static_cast<TypeParam>(static_cast<float>(kNaN));
  part.at(1, 300) = static_cast<TypeParam>(static_cast<float>(kInfinity));
  for (int64_t column = 0; column < 600; ++column)
    part.at(2, column) = static_cast<TypeParam>(static_cast<float>(column == 4 ? 2 : -kInfinity));
  std::vector<Wide> sums(kRows), targets(kRows);
  cross_entropy_forward(part.rows(), sums.data(), targets.data(), 0);
  EXPECT_TRUE(std::isnan(sums[0]));
  EXPECT_FALSE(std::isfinite(sums[1]));
  EXPECT_EQ(sums[2], 2);
}

TEST(CrossEntropyRowsTargets, AreEntriesOfTheVocabularyOrTheSumIsNaN) {
  Part<float> part(33, 40);
  part.targets = {-1, part.first + 34, 1 << 30, kIgnored, part.first + 33};
  std::vector<float> sums(kRows), targets(kRows, -1);
  cross_entropy_forward(part.rows(), sums.data(), targets.data(), 0);
  for (int64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(std::isnan(sums[row]), row < 3) << row;
    EXPECT_EQ(targets[row], 0);
  }
}

TEST(CrossEntropyRowsBits, AreTheSameInEveryOrder) {
  Part<float> part(5003, 5056);
  std::vector<std::vector<float>> all;
  for (const Order order : kOrders) {
    host_cuda::order = order;
    std::vector<float> sums(kRows), targets(kRows);
    cross_entropy_forward(part.rows(), sums.data(), targets.data(), 0);
    all.push_back(sums);
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

}  // namespace
}  // namespace axonn
