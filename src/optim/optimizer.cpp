#include "axonn/optim/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// Norms of small pieces, added in fp64, so that rounding does not grow with the size of the
// network.
double sum_of_squares(const at::Tensor& flat) {
  constexpr int64_t kPiece = int64_t{1} << 16;
  double total = 0;
  for (int64_t begin = 0; begin < flat.numel(); begin += kPiece) {
    const double norm =
        at::linalg_vector_norm(flat.narrow(0, begin, std::min(kPiece, flat.numel() - begin))).item<double>();
    total += norm * norm;
  }
  return total;
}

// The same on a device: summed there in fp64, and the host does not wait.
at::Tensor device_sum_of_squares(const at::Tensor& flat) {
  return at::linalg_vector_norm(flat, 2, at::OptionalIntArrayRef(), /*keepdim=*/false, at::kDouble).square_();
}

}  // namespace

Optimizer::Optimizer(Context& context, const Parameters& parameters, double learning_rate)
    : context_(context), arena_(parameters.arena()), schedule_(parameters.schedule()), learning_rate_(learning_rate) {
  const bool same = arena_.gradients().scalar_type() == arena_.master().scalar_type();
  wide_gradients_ = same ? arena_.gradients() : at::empty_like(arena_.master());
  for (const ArenaSection& section : arena_.sections()) {
    if (section.range.size() == 0) continue;
    const auto narrowed = [&](const at::Tensor& whole) {
      return whole.narrow(0, section.range.begin, section.range.size());
    };
    sections_.push_back({narrowed(arena_.master()), narrowed(wide_gradients_), section.range, section.decay});
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
    for (const Range& range : norm_ranges_)
      total.add_(device_sum_of_squares(gradients.narrow(0, range.begin, range.size())));
  }
  total = context_.scheduler().all_reduce(std::move(total), {Axis::x, Axis::y, Axis::z}, "gradient norm").wait();
  return std::sqrt(total.item<double>());
}

UpdateReport Optimizer::step(UpdateOptions options) {
  AXONN_CHECK(!context_.scheduler().in_step(), "optim.optimizer",
              "the step has not been finished; call step.finish() before optimizer.step()");
  const std::string without = schedule_.without_gradient();
  AXONN_CHECK(without.empty(), "optim.optimizer", "'", without,
              "' has no gradient; run forward, backward and step.finish() first");
  const at::NoGradGuard no_grad;
  if (!wide_gradients_.is_same(arena_.gradients())) wide_gradients_.copy_(arena_.gradients());
  UpdateReport report{.gradient_norm = gradient_norm(options.poisoned) / options.gradient_scale};
  if (!std::isfinite(report.gradient_norm)) return report;
  const double clip = options.max_norm > 0 ? std::min(1.0, options.max_norm / (report.gradient_norm + 1e-6)) : 1.0;
  ++steps_taken_;
  update(options.learning_rate < 0 ? learning_rate_ : options.learning_rate, clip / options.gradient_scale);
  arena_.round_master();
  schedule_.weights_written();
  if (average_) average_->update(steps_taken_);
  report.applied = true;
  return report;
}

std::vector<std::pair<std::string, at::Tensor>> Optimizer::state() const {
  auto all = moments();
  if (average_) all.emplace_back("ema", average_->average());
  return all;
}

}  // namespace axonn
