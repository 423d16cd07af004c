#include "axonn/layers/rotary.hpp"

#include <numbers>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

// Feature i and feature i + d/2 as a complex number, times exp(i angle): the definition.
at::Tensor turned(const at::Tensor& heads, const std::vector<double>& frequencies, const std::vector<int64_t>& first) {
  const int64_t half = heads.size(3) / 2;
  const at::Tensor plane = at::complex(heads.narrow(3, 0, half), heads.narrow(3, half, half)).contiguous();
  const at::Tensor position = at::tensor(first, at::kDouble).unsqueeze(1) + at::arange(heads.size(1), at::kDouble);
  const at::Tensor angles = position.view({heads.size(0), heads.size(1), 1, 1}) * at::tensor(frequencies, at::kDouble);
  const at::Tensor result = plane * at::polar(at::ones_like(angles), angles);
  return at::cat({at::real(result), at::imag(result)}, 3);
}

TEST(Rotary, TurnsPairsOfHalves) {
  const Rotary rotary(8, {.theta = 100});
  const std::vector<double> expected = {1, std::pow(100, -0.25), std::pow(100, -0.5), std::pow(100, -0.75)};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(rotary.frequencies()[i], expected[i], 1e-15);
  const at::Tensor heads = whole_tensor(1, {2, 5, 3, 8});
  for (const std::vector<int64_t>& first : {std::vector<int64_t>{0, 0}, {7, 300}}) {
    at::Tensor mine = heads.clone();
    rotary.turn(mine, first);
    expect_near(mine, turned(heads, rotary.frequencies(), first), "turned");
    rotary.turn(mine, first, /*back=*/true);
    expect_near(mine, heads, "turned back");
  }
}

TEST(Rotary, TurnsHeadsWhereTheyLie) {
  const Rotary rotary(4, {});
  const at::Tensor all = whole_tensor(1, {2, 5, 6, 4}), before = all.clone();
  rotary.turn(all.narrow(2, 1, 3));
  expect_near(all.narrow(2, 1, 3), turned(before.narrow(2, 1, 3), rotary.frequencies(), {0, 0}), "three heads");
  EXPECT_TRUE(all.narrow(2, 0, 1).equal(before.narrow(2, 0, 1)));
  EXPECT_TRUE(all.narrow(2, 4, 2).equal(before.narrow(2, 4, 2)));
}

TEST(Rotary, IsRoundedOnceInNarrowTypes) {
  const Rotary rotary(16, {});
  for (const auto& [type, most] : {std::pair{at::kBFloat16, 0.004}, {at::kHalf, 0.0005}, {at::kFloat, 1e-7}}) {
    const at::Tensor heads = whole_tensor(1, {1, 40, 2, 16}).to(type), wide = heads.to(at::kDouble);
    rotary.turn(heads);
    const at::Tensor expected = turned(wide, rotary.frequencies(), {0});
    EXPECT_LE((heads.to(at::kDouble) - expected).abs().max().item<double>(), most * expected.abs().max().item<double>())
        << type;
  }
}

// Llama 3.1's own: the wave of 8192 tokens is kept, that of more than 8192 is 8 times longer.
TEST(Rotary, SlowsLongWavesAsLlama3Does) {
  const RotaryOptions plain{.theta = 500000}, scaled{.theta = 500000, .factor = 8, .original = 8192};
  const std::vector<double> before = Rotary(128, plain).frequencies(), after = Rotary(128, scaled).frequencies();
  int kept = 0, slowed = 0, between = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double wave = 2 * std::numbers::pi / before[i];
    if (wave < 8192.0 / 4) {
      EXPECT_EQ(after[i], before[i]);
      ++kept;
    } else if (wave > 8192) {
      EXPECT_DOUBLE_EQ(after[i], before[i] / 8);
      ++slowed;
    } else {
      const double smooth = (8192 / wave - 1) / (4 - 1);
      EXPECT_NEAR(after[i], (1 - smooth) * before[i] / 8 + smooth * before[i], 1e-15);
      ++between;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(slowed, 0);
  EXPECT_GT(between, 0);
}

TEST(Rotary, NeedsPairs) { EXPECT_USER_ERROR(Rotary(7, {}), "an even number of features, got 7"); }

}  // namespace
}  // namespace axonn
