#include "optim/device_optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "axonn/overlap/step/sum_of_squares.hpp"
#include "kernels/gpu/placed.hpp"

namespace axonn {

DeviceOptimizer::DeviceOptimizer(Context& context, const Parameters& parameters, const OptimizerSettings& settings)
    : Optimizer(updated_network(context, parameters), settings.learning_rate, settings.ema), settings_(settings) {
  if (keeps_average()) average_ = arena().master().clone();
  const bool same = arena().gradients().scalar_type() == arena().master().scalar_type();
  wide_gradients_ = same ? arena().gradients() : at::empty_like(arena().master());
  for (const ArenaSection& section : arena().sections()) {
    if (section.range.size() == 0) continue;
    const auto narrowed = [&](const at::Tensor& whole) {
      return whole.narrow(0, section.range.begin, section.range.size());
    };
    sections_.push_back({narrowed(arena().master()), narrowed(wide_gradients_), section.range, section.decay});
  }
  std::vector<Range> counted;
  for (const ArenaSlot& slot : arena().slots())
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

// The sum of squares of the network's gradients. On the device. NaN if `poison` of any rank is not
// finite.
at::Tensor DeviceOptimizer::squares(const at::Tensor& poison) {
  if (!wide_gradients_.is_same(arena().gradients())) wide_gradients_.copy_(arena().gradients());
  at::Tensor total;
  for (const Range& range : norm_ranges_) {
    const at::Tensor part = sum_of_squares(wide_gradients_.narrow(0, range.begin, range.size()));
    total = total.defined() ? total.add_(part) : part;
  }
  if (!total.defined()) total = at::zeros({}, wide_gradients_.options().dtype(at::kDouble));
  if (poison.defined()) total.add_(poison, 0);
  return scheduler().all_reduce(std::move(total), {Axis::x, Axis::y, Axis::z}, "gradient norm").wait();
}

double DeviceOptimizer::gradient_norm(double, const UpdateOptions& options) {
  at::Tensor poison;
  if (options.poisoned)
    poison = at::scalar_tensor(std::numeric_limits<double>::quiet_NaN(), wide_gradients_.options().dtype(at::kDouble));
  return std::sqrt(squares(poison).item<double>()) / options.gradient_scale;
}

void DeviceOptimizer::update(double learning_rate, const UpdateOptions& options, double norm) {
  const double clip = options.max_norm > 0 ? std::min(1.0, options.max_norm / (norm + 1e-6)) : 1.0;
  update_weights(learning_rate, clip / options.gradient_scale);
  if (average_.defined()) average_.lerp_(arena().master(), average_rate(steps_taken()));
  state_changed();
}

at::Tensor DeviceOptimizer::update_ahead(double learning_rate, const UpdateOptions& options) {
  at::Tensor norm = squares(options.loss).sqrt_();
  if (options.gradient_scale != 1) norm.div_(options.gradient_scale);
  if (!refused_.defined()) {
    refused_ = at::zeros({}, norm.options().dtype(at::kFloat));
    one_ = at::ones_like(refused_);
  }
  at::_amp_foreach_non_finite_check_and_unscale_({norm}, refused_, one_);
  at::Tensor divisor;
  if (options.max_norm > 0)
    at::div_out(divisor = at::empty({}, arena().master().options()), norm.add(1e-6),
                at::scalar_tensor(options.max_norm, at::kDouble))
        .clamp_min_(1);
  if (options.gradient_scale != 1)
    divisor = (divisor.defined() ? divisor : at::ones({}, arena().master().options())).mul_(options.gradient_scale);
  const at::Tensor staged = options.staged ? staged_.slice(0, 1) : at::Tensor();
  const bool rounded = update_weights_ahead(learning_rate, divisor, refused_, staged);
  if (average_.defined()) average_ahead(options.staged);
  if (!rounded) arena().round_master();
  schedule().weights_written();
  return norm;
}

// Unless the update was refused.
void DeviceOptimizer::average_ahead(bool staged) {
  const double rate = average_rate(steps_taken());
  const at::Tensor share = staged ? at::rsub(refused_, 1).mul_(staged_[0]).to(average_.scalar_type())
                                  : at::rsub(refused_.to(average_.scalar_type()), rate, rate);
  average_.lerp_(arena().master(), share);
}

void DeviceOptimizer::stage_update(double learning_rate) {
  AXONN_CHECK(arena().master().scalar_type() == at::kFloat, "optim.optimizer",
              "the learning rate on the device is fp32; call step() without `staged` in fp64");
  std::vector<float> numbers = {static_cast<float>(average_rate(steps_taken()))};
  const std::vector<float> of_rule = staged_numbers(learning_rate);
  numbers.insert(numbers.end(), of_rule.begin(), of_rule.end());
  const auto count = static_cast<int64_t>(numbers.size());
  if (!staged_.defined()) staged_ = at::empty({count}, arena().master().options());
  put(at::tensor(at::ArrayRef<float>(numbers), at::kFloat), staged_);
}

void DeviceOptimizer::state_changed() {
  arena().round_master();
  schedule().weights_written();
}

std::vector<OptimizerState> DeviceOptimizer::tensors() const {
  std::vector<OptimizerState> all = {{"weights", arena().master()}};
  for (const auto& [name, tensor] : moments()) all.push_back({name, tensor});
  if (average_.defined()) all.push_back({"ema", average_});
  return all;
}

// In pieces, so that no third buffer of this size is needed.
void DeviceOptimizer::exchange_average() {
  constexpr int64_t kPiece = int64_t{1} << 20;
  for (int64_t begin = 0; begin < average_.numel(); begin += kPiece) {
    const int64_t size = std::min(kPiece, average_.numel() - begin);
    const at::Tensor weights = arena().master().narrow(0, begin, size), average = average_.narrow(0, begin, size),
                     kept = weights.clone();
    weights.copy_(average);
    average.copy_(kept);
  }
  state_changed();
}

}  // namespace axonn
