#include "optim/adamw_pass.hpp"

#include <cmath>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "layers/ops/launch.cuh"

namespace axonn {
namespace {

constexpr unsigned kThreads = 256;

// What is the same in every update.
struct Factors {
  float beta1, beta2;
  float new1, new2;  // 1 - beta
  float epsilon;
};

Factors factors_of(const AdamWPass& pass) {
  return {.beta1 = static_cast<float>(pass.beta1),
          .beta2 = static_cast<float>(pass.beta2),
          .new1 = static_cast<float>(1 - pass.beta1),
          .new2 = static_cast<float>(1 - pass.beta2),
          .epsilon = static_cast<float>(pass.epsilon)};
}

template <typename Rounded>
__global__ void update_adamw(AdamWPass pass, Factors by) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= pass.count || *pass.refused == 1) return;
  const float gradient = pass.divisor == nullptr ? pass.gradients[i] : pass.gradients[i] / *pass.divisor;
  const float mean = by.beta1 * pass.mean[i] + by.new1 * gradient,
              square = by.beta2 * pass.square[i] + by.new2 * gradient * gradient;
  const AdamWStep step = pass.staged == nullptr ? pass.step : AdamWStep{pass.staged[0], pass.staged[1], pass.staged[2]};
  const float kept = pass.decays ? step.kept : 1;
  const float weight = kept * pass.weights[i] - step.rate * mean / (std::sqrt(square) * step.scale + by.epsilon);
  pass.mean[i] = mean;
  pass.square[i] = square;
  pass.weights[i] = weight;
  static_cast<Rounded*>(pass.rounded)[i] = static_cast<Rounded>(weight);
}

}  // namespace

void adamw_pass(const AdamWPass& pass, int device) {
  if (pass.count == 0) return;
  const LaunchSize size{static_cast<unsigned>((pass.count + kThreads - 1) / kThreads), kThreads};
  const auto kernel =
      pass.rounded_type == c10::ScalarType::Half ? update_adamw<c10::Half> : update_adamw<c10::BFloat16>;
  launch("optim.adamw", device, size, kernel, pass, factors_of(pass));
}

}  // namespace axonn
