// The kernel of AdamW, run on the host, gives the numbers of fp64.
#include "optim/cuda/adamw_pass.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "gpu/host/host_cuda.hpp"

namespace axonn {
namespace {

using host_cuda::kOrders;
using host_cuda::Order;
constexpr double kRate = 1e-2, kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-3, kDecay = 0.1;

// Numbers that end with their memory, as the address sanitizer knows.
std::unique_ptr<float[]> numbers(int64_t count, double phase, bool positive = false) {
  std::unique_ptr<float[]> all(new float[count]);
  for (int64_t i = 0; i < count; ++i) {
    const double value = std::sin(phase + 1.3 * static_cast<double>(i));
    all[i] = static_cast<float>(positive ? value * value : value);
  }
  return all;
}

// The state of `count` elements, and the pass over it.
template <typename Rounded>
struct State {
  explicit State(int64_t count_)
      : count(count_),
        weights(numbers(count, 0.2)),
        gradients(numbers(count, 1.1)),
        mean(numbers(count, 3.1)),
        square(numbers(count, 0.4, /*positive=*/true)),
        rounded(new Rounded[count]) {
    for (int64_t i = 0; i < count; ++i) rounded[i] = static_cast<Rounded>(7.0f);
  }

  void run(const float* divisor, const float* staged = nullptr) {
    adamw_pass({.count = count,
                .weights = weights.get(),
                .gradients = gradients.get(),
                .mean = mean.get(),
                .square = square.get(),
                .rounded = rounded.get(),
                .rounded_type = c10::CppTypeToScalarType<Rounded>::value,
                .divisor = divisor,
                .refused = &refused,
                .beta1 = kBeta1,
                .beta2 = kBeta2,
                .epsilon = kEpsilon,
                .decay = kDecay,
                .step = staged == nullptr ? adamw_step(kRate, kBeta1, kBeta2, 3) : AdamWStep(),
                .staged = staged},
               0);
  }

  int64_t count;
  std::unique_ptr<float[]> weights, gradients, mean, square;
  std::unique_ptr<Rounded[]> rounded;
  float refused = 0;
};

template <typename Element>
class AdamWKernel : public testing::Test {};
using Elements = testing::Types<c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(AdamWKernel, Elements);

TYPED_TEST(AdamWKernel, EqualsFp64InEveryOrder) {
  for (const int64_t count : {1, 255, 256, 1003})
    for (const Order order : kOrders)
      for (const float divisor : {1.0f, 2.5f}) {
        host_cuda::order = order;
        State<TypeParam> state(count);
        const State<TypeParam> before(count);
        state.run(divisor == 1 ? nullptr : &divisor);
        for (int64_t i = 0; i < count; ++i) {
          const double gradient = static_cast<double>(before.gradients[i]) / divisor,
                       mean = kBeta1 * before.mean[i] + (1 - kBeta1) * gradient,
                       square = kBeta2 * before.square[i] + (1 - kBeta2) * gradient * gradient,
                       unbiased = std::sqrt(square / (1 - std::pow(kBeta2, 3)));
          const double weight = before.weights[i] * (1 - kRate * kDecay) -
                                kRate * mean / (1 - std::pow(kBeta1, 3)) / (unbiased + kEpsilon);
          ASSERT_NEAR(state.mean[i], mean, 3e-7) << i << " of " << count;
          ASSERT_NEAR(state.square[i], square, 3e-7) << i << " of " << count;
          ASSERT_NEAR(state.weights[i], weight, 5e-7) << i << " of " << count;
          ASSERT_EQ(state.rounded[i], static_cast<TypeParam>(state.weights[i])) << i << " of " << count;
        }
      }
}

TYPED_TEST(AdamWKernel, ReadsWhatChangesOnTheDevice) {
  const AdamWStep step = adamw_step(kRate, kBeta1, kBeta2, 3);
  const std::array<float, 3> staged = {step.rate, step.unbiased1, step.unbiased2};
  State<TypeParam> by_value(1003), by_pointer(1003);
  by_value.run(nullptr);
  by_pointer.run(nullptr, staged.data());
  for (int64_t i = 0; i < 1003; ++i) ASSERT_EQ(by_pointer.weights[i], by_value.weights[i]) << i;
}

TYPED_TEST(AdamWKernel, ChangesNothingIfRefused) {
  State<TypeParam> state(300);
  const State<TypeParam> before(300);
  state.refused = 1;
  state.run(nullptr);
  for (int64_t i = 0; i < 300; ++i) {
    ASSERT_EQ(state.weights[i], before.weights[i]);
    ASSERT_EQ(state.mean[i], before.mean[i]);
    ASSERT_EQ(state.square[i], before.square[i]);
    ASSERT_EQ(state.rounded[i], before.rounded[i]);
  }
}

}  // namespace
}  // namespace axonn
