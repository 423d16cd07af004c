#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/core/names.hpp"
#include "axonn/layers/context.hpp"

namespace axonn {

enum class NoiseSchedule : uint8_t { linear, cosine };
enum class DiffusionTarget : uint8_t { epsilon, v };    // prediction: noise, or v = sqrt(a) noise - sqrt(1 - a) x
enum class DiffusionLoss : uint8_t { simple, hybrid };  // hybrid also learns the variance, in twice the channels

template <>
struct Names<NoiseSchedule> {
  static constexpr Named<NoiseSchedule> all[] = {{"linear", NoiseSchedule::linear}, {"cosine", NoiseSchedule::cosine}};
};

template <>
struct Names<DiffusionTarget> {
  static constexpr Named<DiffusionTarget> all[] = {{"epsilon", DiffusionTarget::epsilon}, {"v", DiffusionTarget::v}};
};

template <>
struct Names<DiffusionLoss> {
  static constexpr Named<DiffusionLoss> all[] = {{"simple", DiffusionLoss::simple}, {"hybrid", DiffusionLoss::hybrid}};
};

struct DiffusionOptions {
  int64_t times = 1000;
  NoiseSchedule schedule = NoiseSchedule::linear;
  DiffusionTarget target = DiffusionTarget::epsilon;
  DiffusionLoss loss = DiffusionLoss::simple;
};

// The diffusion process of Ho et al. (2020) with the additions of Nichol and Dhariwal (2021).
// Images x are (batch, ...) with values around [-1, 1]. Times are (batch), int64, from 0 (nearly
// clean) to times - 1 (noise). Constants are fp64; results have the type of their tensors.
class Diffusion {
 public:
  // `device` holds its tables. For times on another device they are copied there at each use.
  explicit Diffusion(DiffusionOptions options, c10::Device device = c10::kCPU);
  const DiffusionOptions& options() const { return options_; }
  int64_t times() const { return options_.times; }
  // Output channels of the network for `channels` image channels.
  int64_t output_channels(int64_t channels) const {
    return options_.loss == DiffusionLoss::hybrid ? 2 * channels : channels;
  }
  // UserError unless a network with `output` channels fits.
  void check_output(int64_t channels, int64_t output) const;

  // q(x_t | x_0): sqrt(a_t) x_0 + sqrt(1 - a_t) noise, with a_t the product of 1 - beta up to t.
  at::Tensor noised(const at::Tensor& clean, const at::Tensor& times, const at::Tensor& noise) const;

  // Each image's loss (batch), a mean over its elements. `output` (batch, ..., output channels) is
  // the network's for noised(...). simple: squared error of the target. hybrid: adds times/1000 of
  // the variational bound's term at t in bits per element; only the variance learns from this term
  // (Nichol and Dhariwal, equation 16).
  at::Tensor losses(const at::Tensor& output, const at::Tensor& clean, const at::Tensor& times,
                    const at::Tensor& noise) const;

  // The x_0 that the network's output predicts, clipped to [-1, 1] if `clip`.
  at::Tensor predicted_clean(const at::Tensor& output, const at::Tensor& noisy, const at::Tensor& times,
                             bool clip = true) const;

  // One step of ancestral sampling (DDPM) from `time` to `before` (-1: to x_0). Times between them
  // are skipped as in section 4 of Nichol and Dhariwal. The variance is the network's if it learned
  // one, else the posterior's.
  at::Tensor ddpm_step(const at::Tensor& output, const at::Tensor& noisy, int64_t time, int64_t before,
                       const at::Tensor& noise) const;
  // One step of DDIM (Song et al., 2021, equation 12) with eta = 0: no noise.
  at::Tensor ddim_step(const at::Tensor& output, const at::Tensor& noisy, int64_t time, int64_t before) const;

  // `steps` times from times - 1 down to 0, evenly spaced.
  std::vector<int64_t> sampling_times(int64_t steps) const;

  double alpha_bar(int64_t time) const { return time < 0 ? 1.0 : alpha_bar_[static_cast<size_t>(time)]; }

 private:
  at::Tensor constants(const at::Tensor& table, const at::Tensor& times, const at::Tensor& like) const;
  at::Tensor bound(const at::Tensor& output, const at::Tensor& clean, const at::Tensor& noisy,
                   const at::Tensor& times) const;

  DiffusionOptions options_;
  std::vector<double> alpha_bar_;
  struct Tables {  // (times) fp64
    at::Tensor alpha_bar, log_beta, log_variance, of_clean, of_noisy;
  } tables_;
};

// Standard normal numbers (samples, ...) that depend only on (seed, purpose, sample number,
// element). Dim 0 is samples first, first + 1, ...
at::Tensor sample_noise(uint64_t seed, std::string_view purpose, int64_t first, at::IntArrayRef sizes);
// The same rounded to `type`, fp32 or fp64, drawn on `device`; on a GPU by axonn's own kernel, up
// to rounding in fp64.
at::Tensor sample_noise(uint64_t seed, std::string_view purpose, int64_t first, at::IntArrayRef sizes,
                        c10::Device device, at::ScalarType type);
// The device that draws the noise of a run: the run's own if KernelChoice::device_noise, else the
// CPU.
c10::Device noise_device(const ContextOptions& options);

}  // namespace axonn
