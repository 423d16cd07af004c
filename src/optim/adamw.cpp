#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "optim/rule.hpp"

namespace axonn {
namespace {

// Loshchilov and Hutter's AdamW through LibTorch's fused kernel.
class AdamW : public DeviceOptimizer {
 public:
  AdamW(Context& context, const Parameters& parameters, const OptimizerSettings& settings)
      : DeviceOptimizer(context, parameters, settings),
        mean_(at::zeros_like(arena().master())),
        square_(at::zeros_like(arena().master())) {
    for (const Section& section : sections())
      step_counts_.push_back(at::zeros({}, section.weights.options().dtype(at::kFloat)));
  }

 protected:
  std::vector<std::pair<std::string, at::Tensor>> moments() const override {
    return {{"adam.m", mean_}, {"adam.v", square_}};
  }
  void update_weights(double learning_rate, double gradient_factor) override;

 private:
  at::Tensor mean_;
  at::Tensor square_;
  std::vector<at::Tensor> step_counts_;  // one per section, as the kernel needs them
};

void AdamW::update_weights(double learning_rate, double gradient_factor) {
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
                      learning_rate, settings().beta1, settings().beta2, section.decay ? settings().weight_decay : 0.0,
                      settings().epsilon, /*amsgrad=*/false,
                      /*maximize=*/false, divisor, {});
  }
}

}  // namespace

template <>
std::unique_ptr<Optimizer> make_rule<OptimizerKind::adamw>(Context& context, const Parameters& parameters,
                                                           const OptimizerSettings& settings) {
  return std::make_unique<AdamW>(context, parameters, settings);
}

}  // namespace axonn
