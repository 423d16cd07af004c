#include "axonn/optim/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// In pieces small enough that rounding does not grow with the size of the network, added in fp64.
double sum_of_squares(const at::Tensor& flat) {
  constexpr int64_t kPiece = int64_t{1} << 16;
  double total = 0;
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const double norm = at::linalg_vector_norm(flat.narrow(0, begin, std::min(kPiece, flat.numel() - begin))).item<double>();
    total += norm * norm;
  }
  return total;
}

// The same on a device: summed in fp64 there, and the host does not wait.
at::Tensor device_sum_of_squares(const at::Tensor& flat) {
  return at::linalg_vector_norm(flat, 2, at::OptionalIntArrayRef(), /*keepdim=*/false, at::kDouble).square_();
}

}  // namespace

Optimizer::Optimizer(Context& context, const Parameters& parameters, double learning_rate)
    : context_(context), arena_(parameters.arena()), learning_rate_(learning_rate) {
  const bool same = arena_.gradients().scalar_type() == arena_.master().scalar_type();
  wide_gradients_ = same ? arena_.gradients() : at::empty_like(arena_.master());
  for (const ArenaSection& section : arena_.sections()) {
    if (section.range.size() == 0) continue;
    const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, section.range.begin, section.range.size()); };
    parts_.push_back({part(arena_.master()), part(wide_gradients_), section.range, section.decay});
  }
  std::vector<Range> counted;
  for (const ArenaSlot& slot : arena_.slots())
    if (slot.counts_in_norm) counted.push_back({slot.offset, slot.offset + slot.stored});
  std::erase_if(counted, [](const Range& range) { return range.size() == 0; });
  std::ranges::sort(counted, {}, &Range::begin);
  for (const Range& range : counted) {
    if (!norm_ranges_.empty() && norm_ranges_.back().end == range.begin)
      norm_ranges_.back().end = range.end;
    else
      norm_ranges_.push_back(range);
  }
}

double Optimizer::gradient_norm(bool poisoned) {
  const at::Tensor& gradients = wide_gradients_;
  double sum = poisoned ? std::numeric_limits<double>::quiet_NaN() : 0;
  at::Tensor total;
  if (gradients.is_cpu()) {
    for (const Range& range : norm_ranges_) sum += sum_of_squares(gradients.narrow(0, range.begin, range.size()));
    total = at::scalar_tensor(sum, at::kDouble);
  } else {
    total = at::scalar_tensor(sum, gradients.options().dtype(at::kDouble));
    for (const Range& range : norm_ranges_) total.add_(device_sum_of_squares(gradients.narrow(0, range.begin, range.size())));
  }
  total = context_.scheduler().all_reduce(std::move(total), {Axis::x, Axis::y, Axis::z}, "gradient norm").wait();
  return std::sqrt(total.item<double>());
}

UpdateReport Optimizer::step(UpdateOptions options) {
  AXONN_CHECK(!context_.scheduler().in_step(), "train.optimizer",
              "the step has not been finished; call step.finish() before optimizer.step()");
  for (const ArenaSlot& slot : arena_.slots())
    AXONN_CHECK(slot.gradient.reduced > 0, "train.optimizer", "'", slot.name,
                "' has no gradient; run forward, backward and step.finish() first");
  const at::NoGradGuard no_grad;
  if (!wide_gradients_.is_same(arena_.gradients())) wide_gradients_.copy_(arena_.gradients());
  UpdateReport report{.gradient_norm = gradient_norm(options.poisoned) / options.gradient_scale};
  if (!std::isfinite(report.gradient_norm)) return report;
  const double clip = options.max_norm > 0 ? std::min(1.0, options.max_norm / (report.gradient_norm + 1e-6)) : 1.0;
  ++steps_taken_;
  update(options.learning_rate < 0 ? learning_rate_ : options.learning_rate, clip / options.gradient_scale);
  arena_.round_master();
  context_.scheduler().weights_written(arena_);
  if (average_) average_->update(steps_taken_);
  report.applied = true;
  return report;
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::state() const {
  auto all = moments();
  if (average_) all.emplace_back("ema", average_->average());
  return all;
}

AdamW::AdamW(Context& context, const Parameters& parameters, AdamWOptions options)
    : Optimizer(context, parameters, options.learning_rate),
      options_(options),
      mean_(at::zeros_like(parameters.arena().master())),
      square_(at::zeros_like(parameters.arena().master())) {
  for (const Part& part : parts()) step_counts_.push_back(at::zeros({}, part.weights.options().dtype(at::kFloat)));
}

void AdamW::set_steps_taken(int64_t steps) {
  Optimizer::set_steps_taken(steps);
  for (const at::Tensor& count : step_counts_) count.fill_(steps);
}

void AdamW::update(double learning_rate, double gradient_factor) {
  for (size_t i = 0; i < parts().size(); ++i) {
    const Part& part = parts()[i];
    step_counts_[i].fill_(steps_taken());
    const auto state = [&](const at::Tensor& whole) { return whole.narrow(0, part.range.begin, part.range.size()); };
    std::optional<at::Tensor> divisor;  // the kernel divides the gradient by it, but only in fp32
    if (gradient_factor != 1 && part.weights.scalar_type() == at::kDouble)
      part.gradients.mul_(gradient_factor);
    else if (gradient_factor != 1)
      divisor = at::scalar_tensor(1 / gradient_factor, part.weights.options().dtype(at::kFloat));
    at::_fused_adamw_({part.weights}, {part.gradients}, {state(mean_)}, {state(square_)}, {}, {step_counts_[i]}, learning_rate,
                      options_.beta1, options_.beta2, part.decay ? options_.weight_decay : 0.0, options_.epsilon, /*amsgrad=*/false,
                      /*maximize=*/false, divisor, {});
  }
}

Sgd::Sgd(Context& context, const Parameters& parameters, SgdOptions options)
    : Optimizer(context, parameters, options.learning_rate), options_(options) {
  if (options_.momentum != 0) velocity_ = at::zeros_like(parameters.arena().master());
}

std::vector<std::pair<std::string, at::Tensor>> Sgd::moments() const {
  if (!velocity_.defined()) return {};
  return {{"sgd.velocity", velocity_}};
}

void Sgd::update(double learning_rate, double gradient_factor) {
  for (const Part& part : parts()) {
    at::Tensor direction = part.gradients;
    if (gradient_factor != 1) direction.mul_(gradient_factor);
    if (part.decay && options_.weight_decay != 0) direction.add_(part.weights, options_.weight_decay);
    if (velocity_.defined()) direction = velocity_.narrow(0, part.range.begin, part.range.size()).mul_(options_.momentum).add_(direction);
    part.weights.add_(direction, -learning_rate);
  }
}

}  // namespace axonn
