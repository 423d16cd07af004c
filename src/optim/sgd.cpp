#include "axonn/optim/sgd.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include "optim/rule.hpp"

namespace axonn {

Sgd::Sgd(Context& context, const Parameters& parameters, SgdOptions options)
    : Optimizer(context, parameters, options.learning_rate), options_(options) {
  if (options_.momentum != 0) velocity_ = at::zeros_like(parameters.arena().master());
}

std::vector<std::pair<std::string, at::Tensor>> Sgd::moments() const {
  if (!velocity_.defined()) return {};
  return {{"sgd.velocity", velocity_}};
}

void Sgd::update(double learning_rate, double gradient_factor) {
  for (const Section& section : sections()) {
    at::Tensor direction = section.gradients;
    if (gradient_factor != 1) direction.mul_(gradient_factor);
    if (section.decay && options_.weight_decay != 0) direction.add_(section.weights, options_.weight_decay);
    if (velocity_.defined())
      direction =
          velocity_.narrow(0, section.range.begin, section.range.size()).mul_(options_.momentum).add_(direction);
    section.weights.add_(direction, -learning_rate);
  }
}

template <>
std::unique_ptr<Optimizer> make_rule<OptimizerKind::sgd>(Context& context, const Parameters& parameters,
                                                         const OptimizerSettings& settings) {
  return std::make_unique<Sgd>(
      context, parameters, SgdOptions{.learning_rate = settings.learning_rate, .weight_decay = settings.weight_decay});
}

template <>
std::unique_ptr<Optimizer> make_rule<OptimizerKind::sgd_momentum>(Context& context, const Parameters& parameters,
                                                                  const OptimizerSettings& settings) {
  return std::make_unique<Sgd>(context, parameters,
                               SgdOptions{.learning_rate = settings.learning_rate,
                                          .momentum = settings.momentum,
                                          .weight_decay = settings.weight_decay});
}

}  // namespace axonn
