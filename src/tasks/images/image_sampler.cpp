#include "axonn/tasks/images/image_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "train/evaluating.hpp"

namespace axonn {
namespace {

using at::Tensor;

// Draws images by their numbers on one rank. Ranks of the same (z, data) draw the same ones.
class Denoiser {
 public:
  Denoiser(Context& context, Unet& model, const Diffusion& diffusion, const ImageSamplingOptions& options)
      : context_(context),
        model_(model),
        diffusion_(diffusion),
        options_(options),
        working_(context.options().dtype == at::kDouble ? at::kDouble : at::kFloat),
        times_(diffusion.sampling_times(options.steps)) {}

  at::ScalarType working() const { return working_; }
  int64_t moments() const { return std::max<int64_t>(options_.trajectory, 1); }

  // (rows, moments, height, width, 3) on the CPU. Undefined if it is to stop.
  Tensor draw(int64_t first, int64_t rows) {
    const Tensor classes = classes_of(first, rows);
    Tensor image = noise(-1, first, rows);
    std::vector<Tensor> kept;
    for (int64_t i = 0; i < options_.steps; ++i) {
      if (options_.stop && options_.stop()) return {};
      image = step(i, image, first, classes);
      if ((i + 1) * moments() / options_.steps > i * moments() / options_.steps) kept.push_back(image.to(at::kCPU));
    }
    return at::stack(kept, 1);
  }

 private:
  Tensor noise(int64_t step, int64_t first, int64_t rows) const {
    const UnetShape& shape = model_.config().shape;
    const std::string purpose = step < 0 ? "sampling" : "sampling step " + std::to_string(step);
    return sample_noise(options_.seed, purpose, first, {rows, shape.image, shape.image, shape.channels},
                        noise_device(context_->options()), working_)
        .to(context_->options().device);
  }

  Tensor classes_of(int64_t first, int64_t rows) const {
    const int64_t classes = model_.config().shape.classes;
    if (classes == 0) return {};
    const auto whole = at::TensorOptions().dtype(at::kLong).device(context_->options().device);
    return options_.only_class < 0 ? at::arange(first, first + rows, whole).remainder(classes)
                                   : at::full({rows}, options_.only_class, whole);
  }

  Tensor step(int64_t index, const Tensor& noisy, int64_t first, const Tensor& classes) {
    const auto i = static_cast<size_t>(index);
    const int64_t time = times_[i], before = i + 1 < times_.size() ? times_[i + 1] : -1;
    const Tensor output = options_.guidance == 1 ? predict(noisy, time, classes) : guided(noisy, time, classes);
    if (options_.method == SamplingMethod::ddim) return diffusion_.ddim_step(output, noisy, time, before);
    return diffusion_.ddpm_step(output, noisy, time, before, noise(index, first, noisy.size(0)));
  }

  Tensor predict(const Tensor& noisy, int64_t time, const Tensor& classes) {
    const Tensor times = at::full({noisy.size(0)}, time, at::TensorOptions().dtype(at::kLong).device(noisy.device()));
    return model_.forward(noisy.to(context_->options().dtype), times, classes).to(working_);
  }

  Tensor guided(const Tensor& noisy, int64_t time, const Tensor& classes) {
    const Tensor both =
        predict(at::cat({noisy, noisy}), time, at::cat({classes, at::full_like(classes, Unet::kNoClass)}));
    const int64_t channels = noisy.size(-1);
    const auto halves = both.chunk(2);
    const Tensor with = halves[0].narrow(-1, 0, channels), without = halves[1].narrow(-1, 0, channels);
    return at::cat(
        {without + options_.guidance * (with - without), halves[0].narrow(-1, channels, both.size(-1) - channels)}, -1);
  }

  ContextHandle context_;
  Unet& model_;
  const Diffusion& diffusion_;
  const ImageSamplingOptions& options_;
  at::ScalarType working_;
  std::vector<int64_t> times_;
};

}  // namespace

void check_sampling(const ImageSamplingOptions& options, const UnetShape& shape, const Diffusion& diffusion) {
  const auto at_least = [](int64_t value, int64_t least, const char* name) {
    AXONN_CHECK(value >= least, "model.sample_images", name, " must be at least ", least, ", got ", value);
  };
  at_least(options.count, 1, "count");
  at_least(options.rows, 1, "rows");
  AXONN_CHECK(options.trajectory >= 0 && options.trajectory <= options.steps, "model.sample_images", "a trajectory of ",
              options.steps, " steps has from 0 to so many moments, got ", options.trajectory);
  AXONN_CHECK(std::isfinite(options.guidance) && options.guidance >= 0, "model.sample_images",
              "guidance must be finite and not negative, got ", options.guidance);
  AXONN_CHECK(options.guidance == 1 || shape.classes > 0, "model.sample_images",
              "guidance needs a network with classes, got guidance ", options.guidance, " and none");
  AXONN_CHECK(options.only_class >= -1 && options.only_class < std::max<int64_t>(shape.classes, 0),
              "model.sample_images", "the network has ", shape.classes,
              " classes, numbered from 0 (-1: all in turn), got class ", options.only_class);
  diffusion.sampling_times(options.steps);
}

SampledImages sample_images(Context& context, Unet& model, const Diffusion& diffusion,
                            const ImageSamplingOptions& options) {
  const UnetShape& network = model.config().shape;
  check_sampling(options, network, diffusion);
  diffusion.check_output(network.channels, network.output_channels());
  const Evaluating evaluating(model, context, Phase::generate);
  Denoiser denoiser(context, model, diffusion, options);
  const RowShare share = context.row_share();
  const Tensor all = at::zeros({options.count, denoiser.moments(), network.image, network.image, network.channels},
                               denoiser.working());
  // Every rank runs the same number of forwards; images past the last one are dropped.
  for (int64_t begin = 0; begin < options.count; begin += share.groups * options.rows) {
    const int64_t rows = share.rows(options.count - begin, options.rows), first = begin + share.mine * rows;
    const Tensor drawn = denoiser.draw(first, rows);
    if (!drawn.defined()) return {};
    if (const int64_t wanted = std::min(rows, options.count - first); wanted > 0)
      all.narrow(0, first, wanted).copy_(drawn.narrow(0, 0, wanted));
  }
  context.communicators().on_cpu(kRowAxes).all_reduce(all).wait();
  return {.images = all.select(1, -1).contiguous(), .trajectory = options.trajectory > 0 ? all : Tensor()};
}

}  // namespace axonn
