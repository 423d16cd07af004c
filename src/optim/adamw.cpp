#include "axonn/optim/adamw.hpp"

#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "optim/rule.hpp"

namespace axonn {

AdamW::AdamW(Context& context, const Parameters& parameters, AdamWOptions options)
    : Optimizer(context, parameters, options.learning_rate),
      options_(options),
      mean_(at::zeros_like(parameters.arena().master())),
      square_(at::zeros_like(parameters.arena().master())) {
  for (const Section& section : sections())
    step_counts_.push_back(at::zeros({}, section.weights.options().dtype(at::kFloat)));
}

void AdamW::set_steps_taken(int64_t steps) {
  Optimizer::set_steps_taken(steps);
  for (const at::Tensor& count : step_counts_) count.fill_(steps);
}

void AdamW::update(double learning_rate, double gradient_factor) {
  for (size_t i = 0; i < sections().size(); ++i) {
    const Section& section = sections()[i];
    step_counts_[i].fill_(steps_taken());
    const auto state = [&](const at::Tensor& whole) {
      return whole.narrow(0, section.range.begin, section.range.size());
    };
    std::optional<at::Tensor> divisor;  // the kernel divides the gradient by it, but only in fp32
    if (gradient_factor != 1 && section.weights.scalar_type() == at::kDouble)
      section.gradients.mul_(gradient_factor);
    else if (gradient_factor != 1)
      divisor = at::scalar_tensor(1 / gradient_factor, section.weights.options().dtype(at::kFloat));
    at::_fused_adamw_({section.weights}, {section.gradients}, {state(mean_)}, {state(square_)}, {}, {step_counts_[i]},
                      learning_rate, options_.beta1, options_.beta2, section.decay ? options_.weight_decay : 0.0,
                      options_.epsilon, /*amsgrad=*/false,
                      /*maximize=*/false, divisor, {});
  }
}

template <>
std::unique_ptr<Optimizer> make_rule<OptimizerKind::adamw>(Context& context, const Parameters& parameters,
                                                           const OptimizerSettings& settings) {
  return std::make_unique<AdamW>(context, parameters,
                                 AdamWOptions{.learning_rate = settings.learning_rate,
                                              .beta1 = settings.beta1,
                                              .beta2 = settings.beta2,
                                              .epsilon = settings.epsilon,
                                              .weight_decay = settings.weight_decay});
}

}  // namespace axonn
