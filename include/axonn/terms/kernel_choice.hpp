#pragma once

#include "axonn/core/switches.hpp"

namespace axonn {

// The choice among axonn's own GPU kernels; docs/gpu.md says of each where it applies and what it
// replaces. They change rounding only. On a CPU they mean nothing. Off by default: none has run on
// a GPU yet.
struct KernelChoice {
  bool cross_entropy = false;  // the loss of a language model: its gradient in the place of the logits
  bool embedding = false;      // the gradient of an embedding, in fixed order
  bool layer_norm = false;     // the backward of LayerNorm, with the stream's gradient in it
  bool group_norm = false;     // GroupNorm, time embedding and SiLU of a UNet in one launch each way
  bool adamw = false;          // AdamW in 16 bits, with clipping and rounding in the same pass
  bool tail = false;           // bias, dropout and residual after a convolution or a sum over ranks
  bool device_noise = false;   // the noise of a UNet's images
  bool epilogues = false;      // in 16 bits, biases, GELU, residual sums and their gradients in cuBLASLt's products

  static KernelChoice all();
  bool operator==(const KernelChoice&) const = default;
};

template <>
struct Switches<KernelChoice> {
  static constexpr std::string_view kWhat = "kernel";
  static constexpr Switch<KernelChoice> kAll[] = {
      {"cross-entropy", &KernelChoice::cross_entropy},
      {"embedding", &KernelChoice::embedding},
      {"layer-norm", &KernelChoice::layer_norm},
      {"group-norm", &KernelChoice::group_norm},
      {"adamw", &KernelChoice::adamw},
      {"tail", &KernelChoice::tail},
      {"device-noise", &KernelChoice::device_noise},
      {"epilogues", &KernelChoice::epilogues},
  };
};

}  // namespace axonn
