#include "axonn/tasks/images/diffusion.hpp"

#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

at::Tensor normals(int64_t seed, at::IntArrayRef sizes) {
  return sample_noise(static_cast<uint64_t>(seed), "test", 0, sizes);
}

at::Tensor all_at(int64_t time, int64_t count) { return at::full({count}, time, at::kLong); }

// Images whose values are normal with this deviation: then the best prediction of the noise is
// known.
constexpr double kDeviation = 0.25;

at::Tensor best_prediction(const Diffusion& diffusion, const at::Tensor& noisy, int64_t time) {
  const double a = diffusion.alpha_bar(time), spread = a * kDeviation * kDeviation + 1 - a;
  if (diffusion.options().target == DiffusionTarget::epsilon) return noisy * (std::sqrt(1 - a) / spread);
  return noisy * (std::sqrt(a) * std::sqrt(1 - a) * (1 - kDeviation * kDeviation) / spread);
}

at::Tensor with_variance(const Diffusion& diffusion, const at::Tensor& prediction) {
  return diffusion.options().loss == DiffusionLoss::hybrid ? at::cat({prediction, -at::ones_like(prediction)}, -1)
                                                           : prediction;
}

TEST(NoiseSchedules, EndWhereThePapersSay) {
  const Diffusion linear({}), cosine({.schedule = NoiseSchedule::cosine});
  EXPECT_NEAR(linear.alpha_bar(0), 1 - 1e-4, 1e-12);
  EXPECT_NEAR(linear.alpha_bar(999), 4.0358e-5, 1e-8);  // the value of Ho et al.'s code
  EXPECT_NEAR(cosine.alpha_bar(499),
              std::pow(std::cos((0.5 + 0.008) / 1.008 * M_PI / 2), 2) / std::pow(std::cos(0.008 / 1.008 * M_PI / 2), 2),
              1e-9);
  EXPECT_NEAR(Diffusion({.times = 250}).alpha_bar(249), linear.alpha_bar(999), 2e-5);
  for (int64_t t = 1; t < 1000; ++t) EXPECT_LT(cosine.alpha_bar(t), cosine.alpha_bar(t - 1));
}

TEST(Diffusion, FindsTheImageAgainFromTheTrueNoise) {
  for (const DiffusionTarget target : {DiffusionTarget::epsilon, DiffusionTarget::v}) {
    const Diffusion diffusion({.target = target});
    const at::Tensor clean = normals(1, {5, 2, 2, 3}).clamp(-1, 1), noise = normals(2, {5, 2, 2, 3});
    const at::Tensor times = at::tensor({0, 10, 300, 700, 900}, at::kLong),
                     noisy = diffusion.noised(clean, times, noise);
    at::Tensor said = noise;
    if (target == DiffusionTarget::v) {
      std::vector<at::Tensor> rows;
      for (int64_t i = 0; i < 5; ++i) {
        const double a = diffusion.alpha_bar(times[i].item<int64_t>());
        rows.push_back(std::sqrt(a) * noise[i] - std::sqrt(1 - a) * clean[i]);
      }
      said = at::stack(rows);
    }
    EXPECT_LE((diffusion.predicted_clean(said, noisy, times) - clean).abs().max().item<double>(), 1e-10);
    EXPECT_LE(diffusion.losses(said, clean, times, noise).abs().max().item<double>(), 1e-20);
  }
}

// From noise, with the best possible prediction, every sampler reaches the images' own
// distribution.
TEST(Samplers, ArriveAtTheDistributionOfTheImages) {
  for (const DiffusionTarget target : {DiffusionTarget::epsilon, DiffusionTarget::v})
    for (const DiffusionLoss loss : {DiffusionLoss::simple, DiffusionLoss::hybrid})
      for (const bool ancestral : {true, false}) {
        const Diffusion diffusion({.target = target, .loss = loss});
        const auto times = diffusion.sampling_times(ancestral ? 1000 : 100);
        at::Tensor x = normals(3, {400, 1, 1, 3});
        for (size_t i = 0; i < times.size(); ++i) {
          const int64_t before = i + 1 < times.size() ? times[i + 1] : -1;
          const at::Tensor output = with_variance(diffusion, best_prediction(diffusion, x, times[i]));
          x = ancestral
                  ? diffusion.ddpm_step(output, x, times[i], before, normals(100 + static_cast<int64_t>(i), x.sizes()))
                  : diffusion.ddim_step(output, x, times[i], before);
        }
        EXPECT_NEAR(x.std().item<double>(), kDeviation, 0.02) << (ancestral ? "ddpm" : "ddim");
        EXPECT_NEAR(x.mean().item<double>(), 0, 0.03);
      }
}

TEST(HybridLoss, TeachesTheVarianceThroughTheBoundAlone) {
  const Diffusion hybrid({.loss = DiffusionLoss::hybrid}), simple({});
  const at::Tensor clean = normals(1, {6, 2, 2, 3}).clamp(-1, 1), noise = normals(2, {6, 2, 2, 3});
  const at::Tensor times = at::tensor({0, 1, 10, 300, 700, 999}, at::kLong);
  const at::Tensor output = normals(4, {6, 2, 2, 6}).requires_grad_();
  hybrid.losses(output, clean, times, noise).sum().backward();
  const at::Tensor noise_gradient = output.grad().narrow(-1, 0, 3).clone(),
                   variance_gradient = output.grad().narrow(-1, 3, 3).clone();
  const at::Tensor first = output.detach().narrow(-1, 0, 3).clone().requires_grad_();
  simple.losses(first, clean, times, noise).sum().backward();
  EXPECT_LE((noise_gradient - first.grad()).abs().max().item<double>(), 1e-15);
  EXPECT_GT(variance_gradient.abs().min().item<double>(), 0);
}

// The bound is least at the true posterior's variance: for the true mean, the divergence is zero
// there.
TEST(HybridLoss, IsLeastAtTheTrueStep) {
  const Diffusion diffusion({.loss = DiffusionLoss::hybrid});
  const at::Tensor clean = normals(1, {1, 2, 2, 3}).clamp(-1, 1), noise = normals(2, {1, 2, 2, 3});
  const auto loss = [&](double variance) {
    return diffusion.losses(at::cat({noise, at::full_like(noise, variance)}, -1), clean, all_at(500, 1), noise)
        .item<double>();
  };
  EXPECT_NEAR(loss(-1), 0, 1e-15);  // the lower end of the range
  EXPECT_GT(loss(0), 1e-9);
  EXPECT_GT(loss(-2), 1e-9);
}

// The probabilities of all shades add up to 1.
TEST(HybridLoss, CountsShadesAtTheFirstTime) {
  const Diffusion diffusion({.loss = DiffusionLoss::hybrid});
  const at::Tensor shades = (at::arange(256, at::kDouble) / 127.5 - 1).view({256, 1, 1, 1});
  const at::Tensor noisy = at::full({256, 1, 1, 1}, 0.1, at::kDouble);  // one noisy value, whatever the shade
  const double a = diffusion.alpha_bar(0);
  const at::Tensor noise = (noisy - std::sqrt(a) * shades) / std::sqrt(1 - a);
  const at::Tensor said = (noisy - std::sqrt(a) * 0.1) / std::sqrt(1 - a);  // predicts a shade of 0.1
  const at::Tensor output = at::cat({said, at::ones_like(said)}, -1);
  const at::Tensor bits = diffusion.losses(output, shades, all_at(0, 256), noise) - (said - noise).square().flatten();
  EXPECT_NEAR((-bits * std::log(2.0)).exp().sum().item<double>(), 1, 1e-6);
}

TEST(SampleNoise, DependsOnTheNumberOfTheSampleAlone) {
  const at::Tensor all = sample_noise(7, "x", 10, {6, 2, 3}), some = sample_noise(7, "x", 12, {2, 2, 3});
  EXPECT_TRUE(at::equal(all.narrow(0, 2, 2), some));
  EXPECT_FALSE(at::equal(all, sample_noise(8, "x", 10, {6, 2, 3})));
  EXPECT_FALSE(at::equal(all, sample_noise(7, "y", 10, {6, 2, 3})));
}

TEST(SamplingTimes, GoFromNoiseToTheImage) {
  const Diffusion diffusion({});
  EXPECT_EQ(diffusion.sampling_times(1), (std::vector<int64_t>{999}));
  EXPECT_EQ(diffusion.sampling_times(4), (std::vector<int64_t>{999, 666, 333, 0}));
  EXPECT_EQ(diffusion.sampling_times(1000).size(), 1000u);
  EXPECT_THROW(diffusion.sampling_times(1001), UserError);
  EXPECT_THROW(Diffusion({.times = 10}), UserError);  // beta would exceed 1
}

}  // namespace
}  // namespace axonn
