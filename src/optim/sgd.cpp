#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

#include "optim/rule.hpp"

namespace axonn {
namespace {

class Sgd : public DeviceOptimizer {
 public:
  Sgd(Context& context, const Parameters& parameters, const OptimizerSettings& settings, double momentum)
      : DeviceOptimizer(context, parameters, settings), momentum_(momentum) {
    if (momentum_ != 0) velocity_ = at::zeros_like(arena().master());
  }

 protected:
  std::vector<std::pair<std::string, at::Tensor>> moments() const override {
    if (!velocity_.defined()) return {};
    return {{"sgd.velocity", velocity_}};
  }
  void update_weights(double learning_rate, double gradient_factor) override;

 private:
  double momentum_;
  at::Tensor velocity_;  // undefined without momentum
};

void Sgd::update_weights(double learning_rate, double gradient_factor) {
  for (const Section& section : sections()) {
    at::Tensor direction = section.gradients;
    if (gradient_factor != 1) direction.mul_(gradient_factor);
    if (section.decay && settings().weight_decay != 0) direction.add_(section.weights, settings().weight_decay);
    if (velocity_.defined())
      direction = velocity_.narrow(0, section.range.begin, section.range.size()).mul_(momentum_).add_(direction);
    section.weights.add_(direction, -learning_rate);
  }
}

}  // namespace

template <>
std::unique_ptr<Optimizer> make_rule<OptimizerKind::sgd>(Context& context, const Parameters& parameters,
                                                         const OptimizerSettings& settings) {
  return std::make_unique<Sgd>(context, parameters, settings, 0);
}

template <>
std::unique_ptr<Optimizer> make_rule<OptimizerKind::sgd_momentum>(Context& context, const Parameters& parameters,
                                                                  const OptimizerSettings& settings) {
  return std::make_unique<Sgd>(context, parameters, settings, settings.momentum);
}

}  // namespace axonn
