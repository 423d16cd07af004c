#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "axonn/overlap/step/sum_of_squares.hpp"
#include "optim/rule.hpp"

namespace axonn {
namespace {

// LAMB (You et al., Large Batch Optimization for Deep Learning, 2020, algorithm 2) with LibTorch's
// operations: Adam's direction, with decay, times |w| / |direction| of each parameter, where both
// are greater than 0. The norms are of whole parameters: each step all-reduces two numbers per
// parameter over X, Y and Z.
class Lamb : public DeviceOptimizer {
 public:
  Lamb(Context& context, const Parameters& parameters, const OptimizerSettings& settings);

 protected:
  std::vector<std::pair<std::string, at::Tensor>> moments() const override {
    return {{"lamb.m", mean_}, {"lamb.v", square_}};
  }
  void update_weights(double learning_rate, double gradient_factor) override;

 private:
  void set_directions(double gradient_factor);
  at::Tensor trust_ratios();

  at::Tensor mean_;
  at::Tensor square_;
  at::Tensor directions_;
};

Lamb::Lamb(Context& context, const Parameters& parameters, const OptimizerSettings& settings)
    : DeviceOptimizer(context, parameters, settings),
      mean_(at::zeros_like(arena().master())),
      square_(at::zeros_like(arena().master())),
      directions_(at::zeros_like(arena().master())) {}

void Lamb::set_directions(double gradient_factor) {
  const auto steps = static_cast<double>(steps_taken());
  const double of_mean = 1 - std::pow(settings().beta1, steps), of_square = 1 - std::pow(settings().beta2, steps);
  for (const Section& section : sections()) {
    const auto state = [&](const at::Tensor& whole) {
      return whole.narrow(0, section.range.begin, section.range.size());
    };
    if (gradient_factor != 1) section.gradients.mul_(gradient_factor);
    state(mean_).mul_(settings().beta1).add_(section.gradients, 1 - settings().beta1);
    state(square_).mul_(settings().beta2).addcmul_(section.gradients, section.gradients, 1 - settings().beta2);
    at::Tensor direction = state(directions_);
    direction.copy_(state(square_)).div_(of_square).sqrt_().add_(settings().epsilon);
    direction.copy_((state(mean_) / of_mean).div_(direction));
    if (section.decay && settings().weight_decay != 0) direction.add_(section.weights, settings().weight_decay);
  }
}

// |w| / |direction| per parameter, over the whole grid; 1 where either is 0.
at::Tensor Lamb::trust_ratios() {
  const std::vector<ArenaSlot>& slots = arena().slots();
  at::Tensor norms = at::zeros({2, static_cast<int64_t>(slots.size())}, arena().master().options().dtype(at::kDouble));
  for (const ArenaSlot& slot : slots) {
    if (!slot.counts_in_norm || slot.range.size() == 0) continue;
    norms.select(0, 0)
        .select(0, slot.number)
        .copy_(sum_of_squares(arena().master().narrow(0, slot.offset, slot.range.size())));
    norms.select(0, 1)
        .select(0, slot.number)
        .copy_(sum_of_squares(directions_.narrow(0, slot.offset, slot.range.size())));
  }
  norms = scheduler().all_reduce(std::move(norms), {Axis::x, Axis::y, Axis::z}, "lamb norms").wait().sqrt_();
  const at::Tensor weight = norms.select(0, 0), direction = norms.select(0, 1);
  return at::where((weight > 0).logical_and(direction > 0), weight / direction, at::ones_like(weight))
      .to(arena().master().scalar_type());
}

void Lamb::update_weights(double learning_rate, double gradient_factor) {
  set_directions(gradient_factor);
  const at::Tensor ratios = trust_ratios();
  for (const ArenaSlot& slot : arena().slots()) {
    at::Tensor weight = arena().master().narrow(0, slot.offset, slot.range.size());
    weight.sub_(directions_.narrow(0, slot.offset, slot.range.size()).mul_(ratios.select(0, slot.number)),
                learning_rate);
  }
}

}  // namespace

template <>
std::unique_ptr<Optimizer> make_rule<OptimizerKind::lamb>(Context& context, const Parameters& parameters,
                                                          const OptimizerSettings& settings) {
  return std::make_unique<Lamb>(context, parameters, settings);
}

}  // namespace axonn
