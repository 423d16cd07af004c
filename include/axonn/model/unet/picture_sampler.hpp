#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "axonn/core/names.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/model/unet/diffusion.hpp"
#include "axonn/model/unet/model.hpp"

namespace axonn {

enum class SamplingMethod : uint8_t { ddim, ddpm };

template <>
struct Names<SamplingMethod> {
  static constexpr Named<SamplingMethod> all[] = {{"ddim", SamplingMethod::ddim}, {"ddpm", SamplingMethod::ddpm}};
};

struct PictureSamplingOptions {
  int64_t count = 64;
  int64_t steps = 50;  // of the diffusion's times, evenly
  SamplingMethod method = SamplingMethod::ddim;
  double guidance = 1;      // classifier-free: unconditional + guidance * (conditional - unconditional); 1: none
  int64_t only_class = -1;  // -1: classes in turn (picture i is of class i % classes)
  int64_t rows = 16;        // pictures a rank a forward
  int64_t trajectory = 0;   // moments kept, evenly, the last one being the picture; 0: none
  uint64_t seed = 1;
};

// UserError for options that mean nothing: a class or guidance without classes, more steps than the diffusion has times, more moments than
// steps.
void check_sampling(const PictureSamplingOptions& options, const UnetShape& shape, const Diffusion& diffusion);

struct SampledPictures {
  at::Tensor pictures;    // (count, height, width, 3) in [-1, 1], fp32 (fp64 in an fp64 context), on CPU, on every rank
  at::Tensor trajectory;  // (count, trajectory, height, width, 3), undefined without; what is not yet clean may be outside [-1, 1]
};

// Draws pictures from noise (DDIM without noise of its own, or DDPM). Every rank of the grid calls it. Picture i is the same on every grid
// up to rounding: its noise depends on (seed, i, step, element) alone. Guidance (Ho and Salimans, 2022) runs every picture twice in one
// forward, with its class and without; it asks for a network trained with UnetTaskOptions::class_dropout. A learned variance is that of the
// conditional half. UserError as check_sampling().
SampledPictures sample_pictures(Context& context, Unet& model, const Diffusion& diffusion, const PictureSamplingOptions& options);

}  // namespace axonn
