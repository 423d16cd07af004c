#include "axonn/tasks/images/diffusion.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "tasks/images/device_noise.hpp"

namespace axonn {
namespace {

using at::Tensor;

std::vector<double> betas(NoiseSchedule schedule, int64_t times) {
  std::vector<double> result;
  const auto count = static_cast<double>(times);
  const auto left = [&](double time) {
    return std::pow(std::cos((time / count + 0.008) / 1.008 * std::numbers::pi / 2), 2);
  };
  for (int64_t t = 0; t < times; ++t) {
    const auto time = static_cast<double>(t);
    if (schedule == NoiseSchedule::cosine)
      result.push_back(std::min(1 - left(time + 1) / left(time), 0.999));
    else
      result.push_back(1000 / count * (1e-4 + (0.02 - 1e-4) * (times > 1 ? time / (count - 1) : 0)));
  }
  return result;
}

// The mean over everything but the batch.
Tensor mean_of_sample(const Tensor& tensor) { return tensor.flatten(1).mean(1); }

// The coefficients of q(x_before | x_t, x_0); a and a_before are the products of 1 - beta at the
// two times.
struct Posterior {
  double beta, variance, of_clean, of_noisy;
  Posterior(double a, double a_before)
      : beta(1 - a / a_before),
        variance(beta * (1 - a_before) / (1 - a)),
        of_clean(std::sqrt(a_before) * beta / (1 - a)),
        of_noisy(std::sqrt(a / a_before) * (1 - a_before) / (1 - a)) {}
};

// The logarithm of the probability that a normal distribution assigns to the shade, one of 256 in
// [-1, 1], that holds x.
Tensor log_likelihood_of_shade(const Tensor& x, const Tensor& mean, const Tensor& log_variance) {
  constexpr double kHalf = 1.0 / 255, kLeast = 1e-12;
  const Tensor scale = (-0.5 * log_variance).exp() / std::numbers::sqrt2, centred = x - mean;
  const Tensor above = 0.5 * (1 + at::erf((centred + kHalf) * scale)),
               below = 0.5 * (1 + at::erf((centred - kHalf) * scale));
  const Tensor inside = at::where(x < -0.999, above, at::where(x > 0.999, 1 - below, above - below));
  return inside.clamp_min(kLeast).log();
}

}  // namespace

Diffusion::Diffusion(DiffusionOptions options, c10::Device device) : options_(options) {
  AXONN_CHECK(options.times > 1, "model.diffusion", "times must be at least 2, got ", options.times);
  double product = 1;
  for (const double beta : betas(options.schedule, options.times)) {
    AXONN_CHECK(beta > 0 && beta < 1, "model.diffusion", options.times,
                " times are too few for the linear schedule; take at least 21, or cosine");
    alpha_bar_.push_back(product *= 1 - beta);
  }
  std::vector<double> log_beta, log_variance, of_clean, of_noisy;
  for (int64_t t = 0; t < options.times; ++t) {
    const Posterior step(alpha_bar(t), alpha_bar(t - 1)), second(alpha_bar(1), alpha_bar(0));
    log_beta.push_back(std::log(step.beta));
    log_variance.push_back(std::log(t == 0 ? second.variance : step.variance));  // the variance of time 0 is 0
    of_clean.push_back(step.of_clean);
    of_noisy.push_back(step.of_noisy);
  }
  const auto table = [&](const std::vector<double>& values) { return at::tensor(values, at::kDouble).to(device); };
  tables_ = {table(alpha_bar_), table(log_beta), table(log_variance), table(of_clean), table(of_noisy)};
}

void Diffusion::check_output(int64_t channels, int64_t output) const {
  AXONN_CHECK(output == output_channels(channels), "model.diffusion", "the network gives ", output,
              " channels, this loss needs ", output_channels(channels), " for images of ", channels);
}

Tensor Diffusion::constants(const Tensor& table, const Tensor& times, const Tensor& like) const {
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[0] = like.size(0);
  return table.to(times.device()).index_select(0, times).to(like.scalar_type()).view(shape);
}

Tensor Diffusion::noised(const Tensor& clean, const Tensor& times, const Tensor& noise) const {
  const Tensor a = constants(tables_.alpha_bar, times, clean);
  return a.sqrt() * clean + (1 - a).sqrt() * noise;
}

Tensor Diffusion::predicted_clean(const Tensor& output, const Tensor& noisy, const Tensor& times, bool clip) const {
  const Tensor a = constants(tables_.alpha_bar, times, noisy),
               said = output.narrow(-1, 0, noisy.size(-1)).to(noisy.scalar_type());
  const Tensor clean = options_.target == DiffusionTarget::v ? a.sqrt() * noisy - (1 - a).sqrt() * said
                                                             : (noisy - (1 - a).sqrt() * said) / a.sqrt();
  return clip ? clean.clamp(-1, 1) : clean;
}

Tensor Diffusion::losses(const Tensor& output, const Tensor& clean, const Tensor& times, const Tensor& noise) const {
  const int64_t channels = clean.size(-1);
  check_output(channels, output.size(-1));
  const Tensor a = constants(tables_.alpha_bar, times, clean), wide = output.to(clean.scalar_type());
  const Tensor target = options_.target == DiffusionTarget::v ? a.sqrt() * noise - (1 - a).sqrt() * clean : noise;
  const Tensor simple = mean_of_sample((wide.narrow(-1, 0, channels) - target).square());
  if (options_.loss == DiffusionLoss::simple) return simple;
  return simple + bound(wide, clean, noised(clean, times, noise), times) * (static_cast<double>(options_.times) / 1000);
}

// Each time's term, in bits: the divergence of the network's step from the true one; at time 0 the
// likelihood of the image.
Tensor Diffusion::bound(const Tensor& output, const Tensor& clean, const Tensor& noisy, const Tensor& times) const {
  const auto at_times = [&](const Tensor& table) { return constants(table, times, clean); };
  const int64_t channels = clean.size(-1);
  const Tensor predicted = predicted_clean(output.narrow(-1, 0, channels).detach(), noisy, times, /*clip=*/false);
  const Tensor mean = at_times(tables_.of_clean) * predicted + at_times(tables_.of_noisy) * noisy;
  const Tensor true_mean = at_times(tables_.of_clean) * clean + at_times(tables_.of_noisy) * noisy,
               least = at_times(tables_.log_variance);
  const Tensor fraction = (output.narrow(-1, channels, channels) + 1) / 2;
  const Tensor learned = fraction * at_times(tables_.log_beta) + (1 - fraction) * least;
  const Tensor divergence =
      0.5 * (learned - least - 1 + (least - learned).exp() + (true_mean - mean).square() * (-learned).exp());
  const Tensor first = -log_likelihood_of_shade(clean, mean, learned);
  const Tensor at_start = (times == 0).view(least.sizes());
  return mean_of_sample(at::where(at_start, first, divergence)) / std::numbers::ln2;
}

Tensor Diffusion::ddpm_step(const Tensor& output, const Tensor& noisy, int64_t time, int64_t before,
                            const Tensor& noise) const {
  const Tensor times = at::full({noisy.size(0)}, time, at::TensorOptions().dtype(at::kLong).device(noisy.device()));
  const Posterior step(alpha_bar(time), alpha_bar(before));
  const Tensor mean = step.of_clean * predicted_clean(output, noisy, times) + step.of_noisy * noisy;
  if (before < 0) return mean;
  if (options_.loss == DiffusionLoss::simple) return mean + std::sqrt(step.variance) * noise;
  const Tensor fraction = (output.narrow(-1, noisy.size(-1), noisy.size(-1)).to(noisy.scalar_type()) + 1) / 2;
  return mean + (0.5 * (fraction * std::log(step.beta) + (1 - fraction) * std::log(step.variance))).exp() * noise;
}

Tensor Diffusion::ddim_step(const Tensor& output, const Tensor& noisy, int64_t time, int64_t before) const {
  const Tensor times = at::full({noisy.size(0)}, time, at::TensorOptions().dtype(at::kLong).device(noisy.device()));
  const Tensor clean = predicted_clean(output, noisy, times);
  const double a = alpha_bar(time), a_before = alpha_bar(before);
  const Tensor noise = (noisy - std::sqrt(a) * clean) / std::sqrt(1 - a);
  return std::sqrt(a_before) * clean + std::sqrt(1 - a_before) * noise;
}

std::vector<int64_t> Diffusion::sampling_times(int64_t steps) const {
  AXONN_CHECK(steps >= 1 && steps <= options_.times, "model.diffusion", "sampling steps must be from 1 to the ",
              options_.times, " times of the diffusion, got ", steps);
  std::vector<int64_t> result;
  for (int64_t i = steps - 1; i >= 0; --i)
    result.push_back(steps == 1 ? options_.times - 1 : i * (options_.times - 1) / (steps - 1));
  return result;
}

Tensor sample_noise(uint64_t seed, std::string_view purpose, int64_t first, at::IntArrayRef sizes) {
  return sample_noise(seed, purpose, first, sizes, c10::kCPU, at::kDouble);
}

c10::Device noise_device(const ContextOptions& options) {
  return options.kernels.device_noise ? options.device : c10::Device(c10::kCPU);
}

Tensor sample_noise(uint64_t seed, std::string_view purpose, int64_t first, at::IntArrayRef sizes, c10::Device device,
                    at::ScalarType type) {
  const int64_t count = c10::multiply_integers(sizes), elements = sizes[0] == 0 ? 0 : count / sizes[0];
  const DeviceNoise draw{
      .seed = seed, .stream = philox_stream("noise", purpose), .first = first * elements, .count = count};
  if (device.is_cuda()) {
    Tensor noise = at::empty(sizes, at::TensorOptions().dtype(type).device(device));
    fill_cuda_noise(noise.mutable_data_ptr(), type, draw, noise.get_device());
    return noise;
  }
  const Tensor noise = at::empty(sizes, at::kDouble);
  double* out = noise.mutable_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i)
    out[i] = to_normal(philox(seed, static_cast<uint64_t>(draw.first + i), 0, draw.stream));
  return noise.to(type);
}

}  // namespace axonn
