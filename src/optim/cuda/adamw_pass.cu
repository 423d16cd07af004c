#include "optim/cuda/adamw_pass.hpp"

#include <algorithm>

#include "kernels/gpu/launch.cuh"
#include "optim/cuda/adamw_text.cuh"  // the build makes it by adamw_text.cpp

namespace axonn {
namespace {

constexpr int64_t kThreads = 256, kMostBlocks = 8192;

template <bool half>
__global__ void update_adamw(AdamWPass pass) {
  if (*pass.refused == 1) return;
  const double factor = pass.divisor == nullptr ? 1 : 1 / static_cast<double>(*pass.divisor);
  const AdamWStep step = pass.staged == nullptr ? pass.step : AdamWStep{pass.staged[0], pass.staged[1], pass.staged[2]};
  const auto update = [](auto... arguments) {
    if constexpr (half)
      coconet::adamw_fp16(arguments...);
    else
      coconet::adamw_bf16(arguments...);
  };
  update(pass.count, pass.gradients, pass.mean, pass.square, pass.weights,
         static_cast<coconet::uint16_t*>(pass.rounded), factor, pass.beta1, pass.beta2, step.rate, step.unbiased1,
         step.unbiased2, pass.epsilon, pass.decay);
}

}  // namespace

void adamw_pass(const AdamWPass& pass, int device) {
  if (pass.count == 0) return;
  const int64_t blocks = std::min((pass.count + kThreads - 1) / kThreads, kMostBlocks);
  launch("optim.adamw", device, {static_cast<unsigned>(blocks), static_cast<unsigned>(kThreads)},
         pass.rounded_type == c10::ScalarType::Half ? update_adamw<true> : update_adamw<false>, pass);
}

}  // namespace axonn
