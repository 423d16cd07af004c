#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "optim/cuda/adamw_pass.hpp"
#include "optim/rule.hpp"

namespace axonn {
namespace {

// Places in staged_numbers(). From the rate on, they are those of our kernel.
constexpr int64_t kStagedStep = 0, kStagedRate = 1;

// Loshchilov and Hutter's AdamW through LibTorch's fused kernel.
class AdamW : public DeviceOptimizer {
 public:
  AdamW(Context& context, const Parameters& parameters, const OptimizerSettings& settings)
      : DeviceOptimizer(context, parameters, settings),
        context_(context),
        mean_(at::zeros_like(arena().master())),
        square_(at::zeros_like(arena().master())),
        step_count_(at::zeros({}, arena().master().options().dtype(at::kFloat))) {}

  bool runs_ahead() const override { return true; }

 protected:
  std::vector<std::pair<std::string, at::Tensor>> moments() const override {
    return {{"adam.m", mean_}, {"adam.v", square_}};
  }
  void update_weights(double learning_rate, double gradient_factor) override;
  bool update_weights_ahead(double learning_rate, const at::Tensor& divisor, const at::Tensor& refused,
                            const at::Tensor& staged) override;
  std::vector<float> staged_numbers(double learning_rate) const override;

 private:
  // On a GPU in 16 bits, where gradients have the type of the master weights.
  bool by_our_kernel() const {
    return arena().weights().is_cuda() && arena().weights().element_size() == 2 &&
           arena().gradients().scalar_type() == at::kFloat && context_.options().kernels.adamw;
  }
  AdamWStep numbers_of_step(double learning_rate) const {
    return adamw_step(learning_rate, settings().beta1, settings().beta2, steps_taken());
  }
  void pass(const Section& section, double learning_rate, const at::Tensor& divisor, const at::Tensor& refused,
            const at::Tensor& staged);
  void update_section(size_t i, double learning_rate, const std::optional<at::Tensor>& divisor = {},
                      const std::optional<at::Tensor>& refused = {}, const at::Tensor& staged = {});

  const Context& context_;
  at::Tensor mean_;
  at::Tensor square_;
  at::Tensor step_count_;  // on the device, as the kernel needs it
};

void AdamW::update_section(size_t i, double learning_rate, const std::optional<at::Tensor>& divisor,
                           const std::optional<at::Tensor>& refused, const at::Tensor& staged) {
  const Section& section = sections()[i];
  const auto state = [&](const at::Tensor& whole) {
    return whole.narrow(0, section.range.begin, section.range.size());
  };
  const auto update = [&](const auto& rate, const at::Tensor& step) {
    at::_fused_adamw_({section.weights}, {section.gradients}, {state(mean_)}, {state(square_)}, {}, {step}, rate,
                      settings().beta1, settings().beta2, section.decay ? settings().weight_decay : 0.0,
                      settings().epsilon, /*amsgrad=*/false, /*maximize=*/false, divisor, refused);
  };
  if (staged.defined())
    update(staged[kStagedRate], staged[kStagedStep]);
  else
    update(learning_rate, step_count_);
}

// The kernel divides the gradient by a divisor, but only in fp32.
void AdamW::update_weights(double learning_rate, double gradient_factor) {
  step_count_.fill_(steps_taken());
  for (size_t i = 0; i < sections().size(); ++i) {
    const Section& section = sections()[i];
    std::optional<at::Tensor> divisor;
    if (gradient_factor != 1 && section.weights.scalar_type() == at::kDouble)
      section.gradients.mul_(gradient_factor);
    else if (gradient_factor != 1)
      divisor = at::scalar_tensor(1 / gradient_factor, section.weights.options().dtype(at::kFloat));
    update_section(i, learning_rate, divisor);
  }
}

std::vector<float> AdamW::staged_numbers(double learning_rate) const {
  const AdamWStep step = numbers_of_step(learning_rate);
  return {static_cast<float>(steps_taken()), step.rate, step.unbiased1, step.unbiased2};
}

void AdamW::pass(const Section& section, double learning_rate, const at::Tensor& divisor, const at::Tensor& refused,
                 const at::Tensor& staged) {
  const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, section.range.begin, section.range.size()); };
  adamw_pass({.count = section.range.size(),
              .weights = section.weights.mutable_data_ptr<float>(),
              .gradients = section.gradients.const_data_ptr<float>(),
              .mean = part(mean_).mutable_data_ptr<float>(),
              .square = part(square_).mutable_data_ptr<float>(),
              .rounded = part(arena().weights()).data_ptr(),
              .rounded_type = arena().weights().scalar_type(),
              .divisor = divisor.defined() ? divisor.const_data_ptr<float>() : nullptr,
              .refused = refused.const_data_ptr<float>(),
              .beta1 = settings().beta1,
              .beta2 = settings().beta2,
              .epsilon = settings().epsilon,
              .decay = section.decay ? settings().weight_decay : 0,
              .step = numbers_of_step(learning_rate),
              .staged = staged.defined() ? staged.const_data_ptr<float>() + kStagedRate : nullptr},
             section.weights.get_device());
}

bool AdamW::update_weights_ahead(double learning_rate, const at::Tensor& divisor, const at::Tensor& refused,
                                 const at::Tensor& staged) {
  if (by_our_kernel()) {
    for (const Section& section : sections()) pass(section, learning_rate, divisor, refused, staged);
    return true;
  }
  if (!staged.defined()) step_count_.fill_(steps_taken());
  for (size_t i = 0; i < sections().size(); ++i) {
    const bool by_kernel = sections()[i].weights.scalar_type() == at::kFloat;
    if (divisor.defined() && !by_kernel) sections()[i].gradients.div_(divisor);
    update_section(i, learning_rate, divisor.defined() && by_kernel ? std::optional(divisor) : std::nullopt, refused,
                   staged);
  }
  return false;
}

}  // namespace

template <>
std::unique_ptr<Optimizer> make_rule<OptimizerKind::adamw>(Context& context, const Parameters& parameters,
                                                           const OptimizerSettings& settings) {
  return std::make_unique<AdamW>(context, parameters, settings);
}

}  // namespace axonn
