#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

// The kernels of a fused GroupNorm (fused_group_norm.hpp): one launch each way. norm_sums() of
// layer_norm_rows.hpp then sums over the images.
namespace axonn {

// Images (images, pixels, channels) in CUDA device memory, contiguous, and what is done with them:
// norm = (x - mean) * reciprocal_deviation * weight + bias, then norm * (1 + scale) + shift, then
// SiLU. "Wide" is fp64 for fp64, and fp32 otherwise.
struct NormedImages {
  c10::ScalarType type = c10::ScalarType::Float;  // fp64, fp32, bf16 or fp16
  int64_t images = 0;
  int64_t pixels = 0;
  int64_t channels = 0;  // a multiple of groups
  int64_t groups = 0;
  double epsilon = 0;
  bool silu = false;
  const void* input = nullptr;
  const void* weight = nullptr;           // (channels)
  const void* bias = nullptr;             // (channels)
  const void* scale_and_shift = nullptr;  // (images, 2, channels); nullptr: none
  void* mean = nullptr;                   // (images, groups), wide; forward writes it
  void* reciprocal_deviation = nullptr;   // (images, groups), wide; forward writes it
};

// Whether the kernels take images of this type: those of which a block of threads holds a group.
bool group_norm_images_fit(c10::ScalarType type, int64_t channels, int64_t groups);

// output (images, pixels, channels). On the current stream of CUDA device `device`; BackendError if
// the launch fails or CUDA is not built in.
void group_norm_forward(const NormedImages& images, void* output, int device);

// From the gradient of the output, `grad`, those of the input and of scale_and_shift (nullptr where
// there is none). parts (images, 2, channels), wide: each image's term of the weight's gradient,
// then of the bias's. Sums have a fixed order. Stream and errors as above.
void group_norm_backward(const NormedImages& images, const void* grad, void* grad_input, void* grad_scale_and_shift,
                         void* parts, int device);

}  // namespace axonn
