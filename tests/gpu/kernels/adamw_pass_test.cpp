// The kernel of AdamW gives the numbers of fp64.
#include "optim/cuda/adamw_pass.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "gpu/kernels/kernel_case.hpp"
#include "gpu/kernels/kernel_memory.hpp"
#include "gpu/kernels/kernel_values.hpp"

namespace axonn {
namespace {

using namespace kernel_test;
constexpr double kRate = 1e-2, kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-3, kDecay = 0.1;

double squared_wave(int64_t i) { return std::pow(waves(0.4)(i), 2); }

// The state of `count` elements, and the pass over it.
template <typename Rounded>
struct State {
  explicit State(int64_t count_)
      : count(count_),
        weights("weights", count, waves(0.2)),
        gradients("gradients", count, waves(1.1)),
        mean("mean", count, waves(3.1)),
        square("square", count, squared_wave),
        rounded("rounded weights", count, all(7)) {}

  void run(bool by_pointer = false) {
    const AdamWStep step = adamw_step(kRate, kBeta1, kBeta2, 3);
    for (int i = 0; i < 3; ++i) staged.set(i, i == 0 ? step.rate : i == 1 ? step.unbiased1 : step.unbiased2);
    adamw_pass({.count = count,
                .weights = weights.out(),
                .gradients = gradients.in(),
                .mean = mean.out(),
                .square = square.out(),
                .rounded = rounded.out(),
                .rounded_type = kType<Rounded>,
                .divisor = divisor[0] == 1 ? nullptr : divisor.in(),
                .refused = refused.in(),
                .beta1 = kBeta1,
                .beta2 = kBeta2,
                .epsilon = kEpsilon,
                .decay = kDecay,
                .step = by_pointer ? AdamWStep() : step,
                .staged = by_pointer ? staged.in() : nullptr},
               0);
  }

  void expect_fp64(const State& before) const {
    for (int64_t i = 0; i < count; ++i) {
      const double gradient = before.gradients[i] / divisor[0],
                   new_mean = kBeta1 * before.mean[i] + (1 - kBeta1) * gradient,
                   new_square = kBeta2 * before.square[i] + (1 - kBeta2) * gradient * gradient,
                   unbiased = std::sqrt(new_square / (1 - std::pow(kBeta2, 3)));
      const double weight = before.weights[i] * (1 - kRate * kDecay) -
                            kRate * new_mean / (1 - std::pow(kBeta1, 3)) / (unbiased + kEpsilon);
      ASSERT_NEAR(mean[i], new_mean, 3e-7) << "mean " << i;
      ASSERT_NEAR(square[i], new_square, 3e-7) << "square " << i;
      ASSERT_NEAR(weights[i], weight, 5e-7) << "weight " << i;
      ASSERT_EQ(rounded.at(i), static_cast<Rounded>(weights.at(i))) << "rounded weight " << i;
    }
  }

  int64_t count;
  Values<float> weights, gradients, mean, square;
  Values<Rounded> rounded;
  Values<float> refused{"refused", 1, all(0)}, divisor{"divisor", 1, all(1)}, staged{"staged", 3, all(0)};
};

template <typename Element>
class AdamWKernel : public testing::Test {};
using Rounded = testing::Types<c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(AdamWKernel, Rounded);

std::string name_of(int64_t count, const char* type) {
  return "adamw_pass of " + std::to_string(count) + " weights, " + type;
}

template <typename Rounded>
void expect_fp64(int64_t count, double divisor, const Runs& runs = {.on_device = 1}) {
  const Case named(name_of(count, kName<Rounded>) + ", gradients / " + std::to_string(divisor));
  in_each_order(runs, [&] {
    State<Rounded> state(count);
    const State<Rounded> before(count);
    state.divisor.set(0, divisor);
    state.run();
    compare([&] { state.expect_fp64(before); });
  });
}

TYPED_TEST(AdamWKernel, EqualsFp64) {
  for (const int64_t count : {1, 255, 256, 1003})
    for (const double divisor : {1.0, 2.5}) expect_fp64<TypeParam>(count, divisor);
}

// More elements than threads.
TEST(AdamWKernelLarge, EqualsFp64) { expect_fp64<c10::BFloat16>(256 * 8192 + 77, 1, kLarge); }

TYPED_TEST(AdamWKernel, ReadsWhatChangesOnTheDevice) {
  const Case named(name_of(1003, kName<TypeParam>) + ", numbers of the step on the device");
  State<TypeParam> by_value(1003), by_pointer(1003);
  by_value.run();
  by_pointer.run(/*by_pointer=*/true);
  compare([&] {
    for (int64_t i = 0; i < 1003; ++i) ASSERT_EQ(by_pointer.weights[i], by_value.weights[i]) << "weight " << i;
  });
}

TYPED_TEST(AdamWKernel, ChangesNothingIfRefused) {
  const Case named(name_of(300, kName<TypeParam>) + ", refused");
  State<TypeParam> state(300);
  const State<TypeParam> before(300);
  state.refused.set(0, 1);
  state.run();
  compare([&] {
    for (int64_t i = 0; i < 300; ++i) {
      ASSERT_EQ(state.weights[i], before.weights[i]) << "weight " << i;
      ASSERT_EQ(state.mean[i], before.mean[i]) << "mean " << i;
      ASSERT_EQ(state.square[i], before.square[i]) << "square " << i;
      ASSERT_EQ(state.rounded[i], before.rounded[i]) << "rounded weight " << i;
    }
  });
}

}  // namespace
}  // namespace axonn
