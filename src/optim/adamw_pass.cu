#include "optim/adamw_pass.hpp"

#include <cmath>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "layers/ops/launch.cuh"

namespace axonn {
namespace {

constexpr unsigned kThreads = 256;

// What does not depend on the element.
struct Factors {
  float kept;  // share of a weight that decay leaves
  float beta1, beta2;
  float new1, new2;  // 1 - beta
  float rate;        // learning rate / (1 - beta1^step)
  float scale;       // 1 / sqrt(1 - beta2^step)
  float epsilon;
};

Factors factors_of(const AdamWPass& pass) {
  const auto step = static_cast<double>(pass.step);
  return {.kept = static_cast<float>(1 - pass.learning_rate * pass.weight_decay),
          .beta1 = static_cast<float>(pass.beta1),
          .beta2 = static_cast<float>(pass.beta2),
          .new1 = static_cast<float>(1 - pass.beta1),
          .new2 = static_cast<float>(1 - pass.beta2),
          .rate = static_cast<float>(pass.learning_rate / (1 - std::pow(pass.beta1, step))),
          .scale = static_cast<float>(1 / std::sqrt(1 - std::pow(pass.beta2, step))),
          .epsilon = static_cast<float>(pass.epsilon)};
}

template <typename Rounded>
__global__ void update_adamw(AdamWPass pass, Factors by) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= pass.count || *pass.refused == 1) return;
  const float gradient = pass.divisor == nullptr ? pass.gradients[i] : pass.gradients[i] / *pass.divisor;
  const float mean = by.beta1 * pass.mean[i] + by.new1 * gradient,
              square = by.beta2 * pass.square[i] + by.new2 * gradient * gradient;
  const float weight = by.kept * pass.weights[i] - by.rate * mean / (std::sqrt(square) * by.scale + by.epsilon);
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
