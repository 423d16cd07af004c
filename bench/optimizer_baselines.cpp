#include "optimizer_baselines.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

namespace axonn::bench {
namespace {

constexpr double kRate = 1e-4, kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8, kDecay = 0.1;

}  // namespace

Baseline::Baseline(Environment& environment, const BaselineOptions& options)
    : environment_(environment),
      options_(options),
      other_(at::zeros({options.elements}, at::kFloat)),
      gradients_(at::zeros({options.elements}, at::kFloat)),
      weights_(at::zeros({options.elements}, at::kFloat)),
      mean_(at::zeros({options.elements}, at::kFloat)),
      square_(at::zeros({options.elements}, at::kFloat)),
      count_(at::zeros({}, at::kFloat)) {
  // Memory of their own: pages of zeros are one page.
  for (const at::Tensor& each : {other_, gradients_, weights_, mean_, square_}) each.fill_(0);
  if (options.rounded) rounded_ = at::zeros({options.elements}, at::kBFloat16);
}

void Baseline::sum(const at::Tensor& gradients) {
  environment_.world().all_reduce(gradients, ReduceOp::sum, {.after = {}, .arena_offset = 0}).wait();
}

double Baseline::clip_factor() const {
  return options_.clip ? std::min(1.0, 1 / (at::linalg_vector_norm(gradients_).item<double>() + 1e-6)) : 1;
}

void Baseline::step(int64_t number) {
  sum(gradients_);
  if (options_.lamb)
    lamb(number, clip_factor());
  else
    adamw(number, clip_factor());
  if (rounded_.defined()) rounded_.copy_(weights_);
}

void Baseline::adamw(int64_t number, double factor) {
  count_.fill_(number);
  const std::optional<at::Tensor> divisor =
      factor == 1 ? std::nullopt : std::optional(at::scalar_tensor(1 / factor, at::kFloat));
  at::_fused_adamw_({weights_}, {gradients_}, {mean_}, {square_}, {}, {count_}, kRate, kBeta1, kBeta2, kDecay, kEpsilon,
                    /*amsgrad=*/false, /*maximize=*/false, divisor, {});
}

void Baseline::lamb(int64_t number, double factor) {
  const double of_mean = 1 - std::pow(kBeta1, number), of_square = 1 - std::pow(kBeta2, number);
  if (factor != 1) gradients_.mul_(factor);
  mean_.mul_(kBeta1).add_(gradients_, 1 - kBeta1);
  square_.mul_(kBeta2).addcmul_(gradients_, gradients_, 1 - kBeta2);
  at::Tensor direction = (square_ / of_square).sqrt_().add_(kEpsilon);
  direction = (mean_ / of_mean).div_(direction).add_(weights_, kDecay);
  const double weight = at::linalg_vector_norm(weights_).item<double>(),
               length = at::linalg_vector_norm(direction).item<double>();
  weights_.sub_(direction, kRate * (weight > 0 && length > 0 ? weight / length : 1));
}

}  // namespace axonn::bench
