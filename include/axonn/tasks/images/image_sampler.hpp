#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "axonn/core/names.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/model/unet/model.hpp"
#include "axonn/tasks/images/diffusion.hpp"

namespace axonn {

enum class SamplingMethod : uint8_t { ddim, ddpm };

template <>
struct Names<SamplingMethod> {
  static constexpr Named<SamplingMethod> all[] = {{"ddim", SamplingMethod::ddim}, {"ddpm", SamplingMethod::ddpm}};
};

struct ImageSamplingOptions {
  int64_t count = 64;
  int64_t steps = 50;  // number of the diffusion's times, evenly spaced
  SamplingMethod method = SamplingMethod::ddim;
  double guidance = 1;      // classifier-free: unconditional + guidance * (conditional - unconditional); 1: none
  int64_t only_class = -1;  // -1: image i has class i % classes
  int64_t rows = 16;        // images per rank per forward pass
  int64_t trajectory = 0;   // number of moments kept, evenly spaced; the last one is the image; 0: none
  uint64_t seed = 1;
  // Asked between the steps, with the same answer on every rank: if true, no images are drawn.
  std::function<bool()> stop = {};
};

// UserError for invalid options: a class or guidance without classes, more steps than the diffusion
// has times, or more moments than steps.
void check_sampling(const ImageSamplingOptions& options, const UnetShape& shape, const Diffusion& diffusion);

// Undefined tensors if the drawing was stopped.
struct SampledImages {
  at::Tensor images;      // (count, height, width, 3) in [-1, 1], fp32 (fp64 in an fp64 context), on CPU, on every rank
  at::Tensor trajectory;  // (count, trajectory, height, width, 3) or undefined; noisy images may leave [-1, 1]
};

// Draws images from noise with DDIM, which adds no noise of its own, or DDPM. Every rank of the
// grid calls it. Image i is the same on every grid up to rounding: its noise depends only on (seed,
// i, step, element). Guidance (Ho and Salimans, 2022) runs every image twice in one forward, with
// its class and without. It needs a network trained with ImageTaskOptions::class_dropout. A learned
// variance is taken from the conditional half. UserError as in check_sampling().
SampledImages sample_images(Context& context, Unet& model, const Diffusion& diffusion,
                            const ImageSamplingOptions& options);

}  // namespace axonn
