// The kernels of the fused cross entropy give the numbers of fp64.
#include "kernels/gpu/cross_entropy_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_case.hpp"
#include "gpu/kernels/kernel_memory.hpp"
#include "gpu/kernels/kernel_values.hpp"
#include "kernels/gpu/packs.cuh"

namespace axonn {
namespace {

using namespace kernel_test;
constexpr int64_t kRows = 5, kIgnored = -100, kIgnoredRow = 3;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

template <typename Element>
constexpr double kSumError = std::is_same_v<Element, double> ? 1e-14 : 2e-7;
template <typename Element>
constexpr double kGradientError = std::is_same_v<Element, double>          ? 1e-14
                                  : std::is_same_v<Element, float>         ? 2e-6
                                  : std::is_same_v<Element, c10::BFloat16> ? 4e-3
                                                                           : 5e-4;

// Columns and width of rows, and elements before them.
struct Size {
  int64_t columns, width, skip;
};

// A part of a vocabulary with targets before it, in it and behind it, and padding of NaN.
template <typename Element>
struct Part {
  using Wide = axonn::Wide<Element>;

  explicit Part(const Size& size)
      : columns(size.columns),
        width(size.width),
        logits(
            "logits", kRows * width,
            [&](int64_t i) {
              const int64_t row = i / width, column = i % width;
              return column < columns ? 15 * std::sin(static_cast<double>(row * 977 + column * 31)) : kNaN;
            },
            size.skip) {
    const double some[] = {first, static_cast<double>(columns == 0 ? 0 : first + columns - 1), 3, kIgnored,
                           static_cast<double>(first + columns)};
    for (int64_t row = 0; row < kRows; ++row) targets.set(row, some[row]);
  }

  double logit(int64_t row, int64_t column) const { return logits[row * width + column]; }
  void set(int64_t row, int64_t column, double logit) { logits.set(row * width + column, logit); }

  LogitRows rows(bool to_write) {
    return {.logits = to_write ? logits.out() : const_cast<Element*>(logits.in()),
            .type = kType<Element>,
            .rows = kRows,
            .width = width,
            .columns = columns,
            .first = first,
            .vocabulary = first + columns + 1,
            .targets = targets.in(),
            .ignored = kIgnored};
  }

  void forward() { cross_entropy_forward(rows(/*to_write=*/false), sums.out(), target_logits.out(), 0); }

  double log_sum(int64_t row) const {
    double greatest = -kInfinity, sum = 0;
    for (int64_t column = 0; column < columns; ++column) greatest = std::max(greatest, logit(row, column));
    for (int64_t column = 0; column < columns; ++column) sum += std::exp(logit(row, column) - greatest);
    return columns > 0 ? greatest + std::log(sum) : -kInfinity;
  }

  static constexpr int64_t first = 11;
  int64_t columns, width;
  Values<Element> logits;
  Values<int64_t> targets{"targets", kRows, all(0)};
  Values<Wide> sums{"log sums", kRows, all(-1)}, target_logits{"target logits", kRows, all(-1)};
};

template <typename Element>
std::string name_of(const char* pass, const Size& size) {
  return std::string("cross_entropy_") + pass + ", " + std::to_string(size.columns) + " columns of " +
         std::to_string(size.width) + " from element " + std::to_string(size.skip) + ", " + kName<Element>;
}

template <typename Element>
void expect_forward(const Size& size, const Runs& runs = {}) {
  const Case named(name_of<Element>("forward", size));
  std::vector<std::vector<std::byte>> bits;
  in_each_order(runs, [&] {
    Part<Element> part(size);
    part.forward();
    compare([&] {
      for (int64_t row = 0; row < kRows; ++row) {
        const double need = part.log_sum(row), allowed = kSumError<Element> * std::max(1.0, std::abs(need));
        if (size.columns == 0)
          ASSERT_EQ(part.sums[row], need) << "row " << row;
        else
          ASSERT_NEAR(part.sums[row], need, allowed) << "row " << row;
        const int64_t column = part.targets.at(row) - part.first;
        ASSERT_EQ(part.target_logits[row], column >= 0 && column < size.columns ? part.logit(row, column) : 0)
            << "row " << row;
      }
    });
    bits.push_back(part.sums.bits());
  });
  compare([&] {
    for (const auto& some : bits) EXPECT_TRUE(some == bits[0]) << "not the same bits each time";
  });
}

template <typename Element>
void expect_backward(const Size& size, const Runs& runs = {}) {
  const Case named(name_of<Element>("backward", size));
  in_each_order(runs, [&] {
    Part<Element> part(size);
    const Part<Element> given(size);
    std::vector<double> log_sums;
    for (int64_t row = 0; row < kRows; ++row) {
      log_sums.push_back(given.log_sum(row));
      part.sums.set(row, size.columns > 0 ? log_sums.back() : 1);
    }
    Values<axonn::Wide<Element>> scale("scale", 1, all(3));
    cross_entropy_backward(part.rows(/*to_write=*/true), part.sums.in(), scale.in(), 0);
    compare([&] {
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t column = 0; column < size.width; ++column) {
          const bool counts = column < size.columns && row != kIgnoredRow,
                     one = column == part.targets.at(row) - part.first;
          const double need = counts ? 3 * (std::exp(given.logit(row, column) - log_sums[row]) - (one ? 1 : 0)) : 0;
          ASSERT_NEAR(part.logit(row, column), need, 3 * kGradientError<Element>)
              << "row " << row << ", column " << column;
        }
    });
  });
}

template <typename Element>
class CrossEntropyRows : public testing::Test {};
TYPED_TEST_SUITE(CrossEntropyRows, Elements);

// Packs of every type, their remains, more than a turn of a block, rows that are not aligned, and
// no columns.
constexpr Size kSizes[] = {{1, 1, 0},       {7, 7, 1},       {33, 40, 0}, {600, 640, 0},
                           {5003, 5056, 0}, {2500, 2503, 1}, {0, 8, 0}};

TYPED_TEST(CrossEntropyRows, ForwardEqualsFp64) {
  for (const Size& size : kSizes) expect_forward<TypeParam>(size);
}

TYPED_TEST(CrossEntropyRows, BackwardEqualsFp64) {
  for (const Size& size : kSizes) expect_backward<TypeParam>(size);
}

// A vocabulary that is padded, and its second half.
TYPED_TEST(CrossEntropyRows, OfUsersVocabulariesEqualFp64Large) {
  for (const Size& size : {Size{50257, 50304, 0}, Size{25105, 25152, 0}}) {
    expect_forward<TypeParam>(size, kLarge);
    expect_backward<TypeParam>(size, kLarge);
  }
}

TYPED_TEST(CrossEntropyRows, LogitsThatAreNoNumbersAreSeenInTheSum) {
  const Size size{600, 640, 0};
  const Case named(name_of<TypeParam>("forward", size) + ", no numbers");
  Part<TypeParam> part(size);
  part.set(0, 599, kNaN);
  part.set(1, 300, kInfinity);
  for (int64_t column = 0; column < 600; ++column) part.set(2, column, column == 4 ? 2 : -kInfinity);
  part.forward();
  compare([&] {
    EXPECT_TRUE(std::isnan(part.sums[0]));
    EXPECT_FALSE(std::isfinite(part.sums[1]));
    EXPECT_EQ(part.sums[2], 2);
  });
}

TEST(CrossEntropyRowsTargets, AreEntriesOfTheVocabularyOrTheSumIsNaN) {
  const Size size{33, 40, 0};
  const Case named(name_of<float>("forward", size) + ", targets outside the vocabulary");
  Part<float> part(size);
  const double targets[] = {-1, Part<float>::first + 34, 1 << 30, kIgnored, Part<float>::first + 33};
  for (int64_t row = 0; row < kRows; ++row) part.targets.set(row, targets[row]);
  part.forward();
  compare([&] {
    for (int64_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(std::isnan(part.sums[row]), row < 3) << "row " << row;
      EXPECT_EQ(part.target_logits[row], 0) << "row " << row;
    }
  });
}

}  // namespace
}  // namespace axonn
