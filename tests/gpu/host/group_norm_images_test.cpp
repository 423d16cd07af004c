// The kernels of the fused GroupNorm, run on the host, give the numbers of fp64.
#include "layers/fused/group_norm_images.hpp"

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

struct Size {
  int64_t images, pixels, channels, groups, skip;
};

// A forward and a backward pass, and what they must give.
template <typename Element>
struct Pass {
  using Wide = axonn::Wide<Element>;

  Pass(const Size& size_, bool silu_, bool scales_, double offset_ = 0)
      : size(size_),
        silu(silu_),
        scales(scales_),
        offset(offset_),
        width(size.channels / size.groups),
        input(numbers(), 0.1, size.skip),
        grad(numbers(), 2.3, size.skip),
        weight(size.channels, 0.7),
        bias(size.channels, 1.9),
        scale_and_shift(size.images * 2 * size.channels, 3.1),
        output(numbers(), 0, size.skip),
        grad_input(numbers(), 0, size.skip),
        grad_scale_and_shift(size.images * 2 * size.channels, 0),
        mean(static_cast<size_t>(size.images * size.groups)),
        reciprocal_deviation(mean.size()),
        parts(static_cast<size_t>(size.images * 2 * size.channels), -7) {
    if (offset == 0) return;
    for (int64_t i = 0; i < numbers(); ++i)
      input.begin()[i] = static_cast<Element>(static_cast<float>(input[i] + offset));
  }

  int64_t numbers() const { return size.images * size.pixels * size.channels; }

  void run() {
    const NormedImages images{.type = kType<Element>,
                              .images = size.images,
                              .pixels = size.pixels,
                              .channels = size.channels,
                              .groups = size.groups,
                              .epsilon = kEpsilon,
                              .silu = silu,
                              .input = input.begin(),
                              .weight = weight.begin(),
                              .bias = bias.begin(),
                              .scale_and_shift = scales ? scale_and_shift.begin() : nullptr,
                              .mean = mean.data(),
                              .reciprocal_deviation = reciprocal_deviation.data()};
    group_norm_forward(images, output.begin(), 0);
    group_norm_backward(images, grad.begin(), grad_input.begin(), scales ? grad_scale_and_shift.begin() : nullptr,
                        parts.data(), 0);
  }

  int64_t at(int64_t image, int64_t pixel, int64_t channel) const {
    return (image * size.pixels + pixel) * size.channels + channel;
  }

  template <typename Each>
  double sum_of_group(int64_t group, const Each& each) const {
    double sum = 0;
    for (int64_t pixel = 0; pixel < size.pixels; ++pixel)
      for (int64_t channel = group * width; channel < (group + 1) * width; ++channel) sum += each(pixel, channel);
    return sum;
  }

  void check(const std::string& what) const {
    for (int64_t image = 0; image < size.images; ++image)
      for (int64_t group = 0; group < size.groups; ++group) check_group(image, group, what);
  }

  void check_group(int64_t image, int64_t group, const std::string& what) const {
    const auto count = static_cast<double>(size.pixels * width), wide_error = kRounding<Wide>,
               error = kRounding<Element>;
    const double m = sum_of_group(group, [&](int64_t p, int64_t c) { return input[at(image, p, c)]; }) / count;
    const double variance =
        sum_of_group(group, [&](int64_t p, int64_t c) { return std::pow(input[at(image, p, c)] - m, 2); }) / count;
    const double r = 1 / std::sqrt(variance + kEpsilon);
    const int64_t first = image * 2 * size.channels;
    const auto scale = [&](int64_t c) { return scales ? 1 + scale_and_shift[first + c] : 1; };
    const auto shift = [&](int64_t c) { return scales ? scale_and_shift[first + size.channels + c] : 0; };
    const auto normalised = [&](int64_t p, int64_t c) { return (input[at(image, p, c)] - m) * r; };
    const auto z = [&](int64_t p, int64_t c) { return (normalised(p, c) * weight[c] + bias[c]) * scale(c) + shift(c); };
    const auto gradient = [&](int64_t p, int64_t c) {
      const double part = 1 / (1 + std::exp(-z(p, c)));
      return grad[at(image, p, c)] * (silu ? part * (1 + z(p, c) * (1 - part)) : 1);
    };
    const double sum = sum_of_group(group, [&](int64_t p, int64_t c) { return gradient(p, c) * weight[c] * scale(c); });
    const double product = sum_of_group(
        group, [&](int64_t p, int64_t c) { return gradient(p, c) * weight[c] * scale(c) * normalised(p, c); });
    // Distances from a mean far from zero lose the digits of the mean.
    const double lost = 64 * wide_error * (1 + std::abs(offset)) * r;
    for (int64_t c = group * width; c < (group + 1) * width; ++c) {
      double of_channel = 0, of_product = 0;
      for (int64_t p = 0; p < size.pixels; ++p) {
        const int64_t i = at(image, p, c);
        const double needed = silu ? z(p, c) / (1 + std::exp(-z(p, c))) : z(p, c);
        ASSERT_NEAR(output[i], needed, error * (1 + std::abs(needed)) + lost) << what << ", output " << i;
        const double back = r * (weight[c] * scale(c) * gradient(p, c) - (sum + normalised(p, c) * product) / count);
        ASSERT_NEAR(grad_input[i], back, error * (1 + std::abs(back)) + 16 * lost * r) << what << ", gradient " << i;
        of_channel += gradient(p, c);
        of_product += gradient(p, c) * normalised(p, c);
      }
      const double allowed = 16 * static_cast<double>(size.pixels) * lost;
      ASSERT_NEAR(parts[first + c], scale(c) * of_product, allowed) << what << ", weight " << c;
      ASSERT_NEAR(parts[first + size.channels + c], scale(c) * of_channel, allowed) << what << ", bias " << c;
      if (!scales) continue;
      const double of_scale = weight[c] * of_product + bias[c] * of_channel;
      ASSERT_NEAR(grad_scale_and_shift[first + c], of_scale, error * (1 + std::abs(of_scale)) + allowed)
          << what << ", scale " << c;
      ASSERT_NEAR(grad_scale_and_shift[first + size.channels + c], of_channel,
                  error * (1 + std::abs(of_channel)) + allowed)
          << what << ", shift " << c;
    }
  }

  static constexpr double kEpsilon = 1e-5;
  Size size;
  bool silu, scales;
  double offset;
  int64_t width;
  Values<Element> input, grad, weight, bias, scale_and_shift, output, grad_input, grad_scale_and_shift;
  std::vector<Wide> mean, reciprocal_deviation, parts;
};

template <typename Element>
class GroupNormImages : public testing::Test {};
using Elements = testing::Types<double, float, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(GroupNormImages, Elements);

// One channel per group; groups smaller and larger than a pack; several slabs, the last one
// smaller; one group; more pixels than rows of threads, and images that are not aligned.
constexpr Size kSizes[] = {{2, 6, 32, 32, 0}, {2, 5, 24, 6, 0},  {1, 16, 80, 5, 0}, {2, 9, 72, 18, 0},
                           {1, 3, 40, 1, 0},  {1, 70, 64, 8, 0}, {2, 7, 21, 3, 0},  {1, 11, 16, 4, 1}};

TYPED_TEST(GroupNormImages, EqualFp64InEveryOrder) {
  for (const Size& size : kSizes)
    for (const Order order : kOrders)
      for (const bool silu : {false, true})
        for (const bool scales : {false, true}) {
          host_cuda::order = order;
          Pass<TypeParam> pass(size, silu, scales);
          pass.run();
          pass.check(std::to_string(size.channels) + " channels in " + std::to_string(size.groups) + " groups" +
                     (silu ? ", SiLU" : "") + (scales ? ", scaled" : ""));
        }
}

// Sums of squares would lose six digits.
TEST(GroupNormImagesFarFromZero, EqualFp64) {
  host_cuda::order = Order::ascending;
  Pass<double> pass({2, 20, 16, 4, 0}, true, true, 1000);
  pass.run();
  pass.check("far from zero");
}

TEST(GroupNormImagesBits, AreTheSameInEveryOrder) {
  std::vector<std::vector<float>> all;
  for (const Order order : kOrders) {
    host_cuda::order = order;
    Pass<float> pass({2, 300, 40, 10, 0}, true, true);
    pass.run();
    pass.check("many pixels");
    all.push_back(pass.parts);
    all.back().insert(all.back().end(), pass.grad_input.begin(), pass.grad_input.begin() + pass.numbers());
    all.back().insert(all.back().end(), pass.output.begin(), pass.output.begin() + pass.numbers());
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

TEST(GroupNormImagesFit, ABlockOfThreads) {
  EXPECT_TRUE(group_norm_images_fit(c10::kBFloat16, 4096, 1));
  EXPECT_FALSE(group_norm_images_fit(c10::kBFloat16, 8192, 1));
  EXPECT_TRUE(group_norm_images_fit(c10::kBFloat16, 8192, 32));
  EXPECT_TRUE(group_norm_images_fit(c10::kFloat, 511, 1));
  EXPECT_FALSE(group_norm_images_fit(c10::kFloat, 513, 1));
  EXPECT_FALSE(group_norm_images_fit(c10::kFloat, 0, 1));
}

}  // namespace
}  // namespace axonn
