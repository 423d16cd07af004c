// The kernels of the fused GroupNorm give the numbers of fp64.
#include "kernels/gpu/group_norm_images.hpp"

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
        input(
            "input", numbers(), [&](int64_t i) { return waves(0.1)(i) + offset; }, size.skip),
        grad("gradient", numbers(), waves(2.3), size.skip),
        weight("weight", size.channels, waves(0.7)),
        bias("bias", size.channels, waves(1.9)),
        scale_and_shift("scale and shift", size.images * 2 * size.channels, waves(3.1)),
        output("output", numbers(), all(7), size.skip),
        grad_input("gradient of the input", numbers(), all(7), size.skip),
        grad_scale_and_shift("gradient of scale and shift", size.images * 2 * size.channels, all(7)),
        mean("mean", size.images * size.groups, all(7)),
        reciprocal_deviation("reciprocal deviation", size.images * size.groups, all(7)),
        parts("parts", size.images * 2 * size.channels, all(-7)) {}

  int64_t numbers() const { return size.images * size.pixels * size.channels; }

  void run() {
    const NormedImages images{.type = kType<Element>,
                              .images = size.images,
                              .pixels = size.pixels,
                              .channels = size.channels,
                              .groups = size.groups,
                              .epsilon = kEpsilon,
                              .silu = silu,
                              .input = input.in(),
                              .weight = weight.in(),
                              .bias = bias.in(),
                              .scale_and_shift = scales ? scale_and_shift.in() : nullptr,
                              .mean = mean.out(),
                              .reciprocal_deviation = reciprocal_deviation.out()};
    group_norm_forward(images, output.out(), 0);
    group_norm_backward(images, grad.in(), grad_input.out(), scales ? grad_scale_and_shift.out() : nullptr, parts.out(),
                        0);
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

  void check() const {
    for (int64_t image = 0; image < size.images; ++image)
      for (int64_t group = 0; group < size.groups; ++group) check_group(image, group);
  }

  void check_group(int64_t image, int64_t group) const {
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
        ASSERT_NEAR(output[i], needed, error * (1 + std::abs(needed)) + lost) << "output " << i;
        const double back = r * (weight[c] * scale(c) * gradient(p, c) - (sum + normalised(p, c) * product) / count);
        ASSERT_NEAR(grad_input[i], back, error * (1 + std::abs(back)) + 16 * lost * r) << "gradient of input " << i;
        of_channel += gradient(p, c);
        of_product += gradient(p, c) * normalised(p, c);
      }
      const double allowed = 16 * static_cast<double>(size.pixels) * lost;
      ASSERT_NEAR(parts[first + c], scale(c) * of_product, allowed) << "image " << image << ", weight " << c;
      ASSERT_NEAR(parts[first + size.channels + c], scale(c) * of_channel, allowed)
          << "image " << image << ", bias " << c;
      if (!scales) continue;
      const double of_scale = weight[c] * of_product + bias[c] * of_channel;
      ASSERT_NEAR(grad_scale_and_shift[first + c], of_scale, error * (1 + std::abs(of_scale)) + allowed)
          << "image " << image << ", scale " << c;
      ASSERT_NEAR(grad_scale_and_shift[first + size.channels + c], of_channel,
                  error * (1 + std::abs(of_channel)) + allowed)
          << "image " << image << ", shift " << c;
    }
  }

  static constexpr double kEpsilon = 1e-5;
  Size size;
  bool silu, scales;
  double offset;
  int64_t width;
  Values<Element> input, grad, weight, bias, scale_and_shift, output, grad_input, grad_scale_and_shift;
  Values<Wide> mean, reciprocal_deviation, parts;
};

// The same bits in each order and time.
template <typename Element>
void expect_fp64(const Size& size, bool silu, bool scales, double offset = 0, const Runs& runs = {}) {
  const Case named("group_norm_forward and _backward, " + std::to_string(size.images) + " images of " +
                   std::to_string(size.pixels) + " pixels, " + std::to_string(size.channels) + " channels in " +
                   std::to_string(size.groups) + " groups from element " + std::to_string(size.skip) +
                   (silu ? ", SiLU" : "") + (scales ? ", scaled, " : ", ") + kName<Element>);
  std::vector<std::vector<std::byte>> bits;
  in_each_order(runs, [&] {
    Pass<Element> pass(size, silu, scales, offset);
    pass.run();
    compare([&] { pass.check(); });
    bits.push_back(pass.parts.bits());
    for (const auto* const more : {&pass.output, &pass.grad_input}) {
      const std::vector<std::byte> some = more->bits();
      bits.back().insert(bits.back().end(), some.begin(), some.end());
    }
  });
  compare([&] {
    for (const auto& some : bits) EXPECT_TRUE(some == bits[0]) << "not the same bits each time";
  });
}

template <typename Element>
class GroupNormImages : public testing::Test {};
TYPED_TEST_SUITE(GroupNormImages, Elements);

// One channel per group; groups smaller and larger than a pack; several slabs, the last one
// smaller; one group; more pixels than rows of threads, and images that are not aligned.
constexpr Size kSizes[] = {{2, 6, 32, 32, 0}, {2, 5, 24, 6, 0},  {1, 16, 80, 5, 0}, {2, 9, 72, 18, 0},
                           {1, 3, 40, 1, 0},  {1, 70, 64, 8, 0}, {2, 7, 21, 3, 0},  {1, 11, 16, 4, 1}};

TYPED_TEST(GroupNormImages, EqualFp64) {
  for (const Size& size : kSizes)
    for (const bool silu : {false, true})
      for (const bool scales : {false, true}) expect_fp64<TypeParam>(size, silu, scales);
}

// Of the UNet for CIFAR: its smallest and widest images.
TYPED_TEST(GroupNormImages, OfUsersEqualFp64) {
  for (const Size& size : {Size{2, 16, 512, 32, 0}, Size{1, 64, 384, 32, 0}})
    expect_fp64<TypeParam>(size, /*silu=*/true, /*scales=*/true, 0, kLarge);
}

TEST(GroupNormImagesLarge, EqualFp64) { expect_fp64<c10::BFloat16>({1, 1024, 128, 32, 0}, true, true, 0, kLarge); }

// Sums of squares would lose six digits.
TEST(GroupNormImagesFarFromZero, EqualFp64) { expect_fp64<double>({2, 20, 16, 4, 0}, true, true, 1000); }

TEST(GroupNormImagesOfManyPixels, EqualFp64) { expect_fp64<float>({2, 300, 40, 10, 0}, true, true); }

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
