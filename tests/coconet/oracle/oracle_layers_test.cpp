#include <gtest/gtest.h>

#include "axonn/coconet/oracle/oracle.hpp"
#include "coconet/oracle/oracle_settings.hpp"

namespace axonn::coconet::test {
namespace {

using enum ElementType;

TEST(OracleLayers, MultipliesByHand) {
  ProgramBuilder p("product");
  const auto x = p.tensor("x", fp32, {"M", "K"}), w = p.tensor("w", fp32, {"K", "N"});
  const Program program = p.returns({p.let("y", matmul(x, w))});
  const OracleResult result = run_oracle(program, {{"x", {{1, 2, 3, 4, 5, 6}}}, {"w", {{7, 8, 9, 10, 11, 12}}}},
                                         {.sizes = {{"M", 2}, {"K", 3}, {"N", 2}}});
  EXPECT_EQ(whole(result, "y"), (std::vector<double>{58, 64, 139, 154}));
}

struct Sliced {
  int x, weight;  // dims; -1: whole
};

// The result of a layer with slices; what is local is summed.
std::vector<double> layer(Operation operation, const Shape& x_shape, const Shape& w_shape, Sliced dims,
                          const OracleOptions& options, const OracleInputs& inputs) {
  const auto lies = [](int dim) { return dim < 0 ? Distribution::replicated() : Distribution::sliced(dim); };
  ProgramBuilder p("layer");
  const auto x = p.tensor("x", fp32, x_shape, lies(dims.x)), w = p.tensor("w", fp32, w_shape, lies(dims.weight));
  auto y = p.let("y", Expression::of(operation, {x, w}));
  const Program first = p.returns({y});
  if (first.type("y").distribution.is(Placement::local)) y = p.let("sum", all_reduce(ReduceOp::sum, y));
  return whole(run_oracle(p.returns({y}), inputs, options), y.name());
}

TEST(OracleLayers, MultiplySlices) {
  const Shape x = {"B", "M", "K"}, w = {"K", "N"};
  for_each_setting({.sizes = {{"B", 2}, {"M", 5}, {"K", 7}, {"N", 6}}}, [&](const OracleOptions& options) {
    ProgramBuilder p("inputs");
    const auto y = p.let("y", matmul(p.tensor("x", fp32, x), p.tensor("w", fp32, w)));
    const OracleInputs inputs = random_inputs(p.returns({y}), options, 3);
    std::vector<double> expected(2 * 5 * 6, 0);
    for (size_t row = 0; row < 10; ++row)
      for (size_t n = 0; n < 6; ++n)
        for (size_t k = 0; k < 7; ++k)
          expected[row * 6 + n] += inputs.at("x")[0][row * 7 + k] * inputs.at("w")[0][k * 6 + n];
    for (const Sliced dims : {Sliced{-1, -1}, {2, 0}, {-1, 1}, {0, -1}, {1, -1}})
      expect_near(layer(Operation::matmul, x, w, dims, options, inputs), expected);
  });
}

// Plain loops over a padded copy of the image.
std::vector<double> convolved(const std::vector<double>& x, const std::vector<double>& w) {
  constexpr int kImages = 2, kIn = 3, kOut = 4, kHeight = 4, kWidth = 5, kTall = 3, kWide = 1;
  std::vector<double> padded(kImages * kIn * (kHeight + 2) * kWidth, 0), result;
  for (int plane = 0; plane < kImages * kIn; ++plane)
    for (int row = 0; row < kHeight; ++row)
      for (int column = 0; column < kWidth; ++column)
        padded[static_cast<size_t>((plane * (kHeight + 2) + row + 1) * kWidth + column)] =
            x[static_cast<size_t>((plane * kHeight + row) * kWidth + column)];
  for (int image = 0; image < kImages; ++image)
    for (int out = 0; out < kOut; ++out)
      for (int place = 0; place < kHeight * kWidth; ++place) {
        double sum = 0;
        for (int in = 0; in < kIn; ++in)
          for (int k = 0; k < kTall; ++k)
            sum += padded[static_cast<size_t>((image * kIn + in) * (kHeight + 2) * kWidth + place + k * kWidth)] *
                   w[static_cast<size_t>((out * kIn + in) * kTall * kWide + k)];
        result.push_back(sum);
      }
  return result;
}

TEST(OracleLayers, ConvolveSlices) {
  const Shape x = {"N", "C", "H", "W"}, w = {"O", "C", 3, 1};
  const OracleOptions base = {.sizes = {{"N", 2}, {"C", 3}, {"H", 4}, {"W", 5}, {"O", 4}}};
  for_each_setting(base, [&](const OracleOptions& options) {
    ProgramBuilder p("inputs");
    const auto y = p.let("y", conv2d(p.tensor("x", fp32, x), p.tensor("w", fp32, w)));
    const OracleInputs inputs = random_inputs(p.returns({y}), options, 4);
    const std::vector<double> expected = convolved(inputs.at("x")[0], inputs.at("w")[0]);
    for (const Sliced dims : {Sliced{-1, -1}, {1, 1}, {-1, 0}, {0, -1}})
      expect_near(layer(Operation::conv2d, x, w, dims, options, inputs), expected);
  });
}

}  // namespace
}  // namespace axonn::coconet::test
