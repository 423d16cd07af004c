#include "axonn/layers/loss.hpp"

#include <limits>

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "axonn/core/error.hpp"
#include "layers/operation.hpp"

namespace axonn {
namespace {

// Logits of this rank, rows x columns; `columns` are the vocabulary entries held here, without
// padding.
class SplitCrossEntropy : public Operation {
 public:
  SplitCrossEntropy(Context& context, Axis axis, Range columns, Tensor targets)
      : context_(context), axis_(axis), columns_(columns), targets_(targets.flatten()) {}

  std::string name() const override { return "cross_entropy"; }

  Tensor forward(const Tensor& input) override {
    auto& scheduler = context_.scheduler();
    sizes_ = input.sizes().vec();
    type_ = input.scalar_type();
    const Tensor logits = wide(rows_of(input).narrow(1, 0, columns_.size()));
    Tensor greatest = columns_.size() > 0
                          ? logits.amax(1)
                          : at::full({logits.size(0)}, -std::numeric_limits<double>::infinity(), logits.options());
    greatest = scheduler.all_reduce(std::move(greatest), axis_, "cross_entropy max", ReduceOp::max).wait();
    probabilities_ = (logits - greatest.unsqueeze(1)).exp_();

    elsewhere_ = targets_.lt(columns_.begin).logical_or_(targets_.ge(columns_.end));
    local_targets_ = (targets_ - columns_.begin).masked_fill_(elsewhere_, 0).unsqueeze_(1);
    Tensor target_logit =
        columns_.size() > 0 ? logits.gather(1, local_targets_).squeeze_(1) - greatest : at::zeros_like(greatest);
    target_logit.masked_fill_(elsewhere_, 0);
    const Tensor sums =
        scheduler.all_reduce(at::stack({probabilities_.sum(1), target_logit}), axis_, "cross_entropy sums").wait();
    probabilities_.div_(sums[0].unsqueeze(1));
    ignored_ = targets_.eq(kIgnoredTarget);
    return (sums[0].log() - sums[1]).masked_fill_(ignored_, 0).sum();
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    Tensor grad = at::zeros({probabilities_.size(0), sizes_.back()}, probabilities_.options());  // padding stays 0
    const Tensor part = grad.narrow(1, 0, columns_.size());
    part.copy_(probabilities_);
    if (columns_.size() > 0)
      part.scatter_add_(1, local_targets_, elsewhere_.logical_not().to(grad.scalar_type()).neg_().unsqueeze_(1));
    return grad.masked_fill_(ignored_.unsqueeze(1), 0).mul_(grad_output).view(sizes_).to(type_);
  }

  void release() override { probabilities_.reset(); }

 private:
  Context& context_;
  Axis axis_;
  Range columns_;
  Tensor targets_;
  std::vector<int64_t> sizes_;
  at::ScalarType type_ = at::kFloat;
  Tensor probabilities_;
  Tensor elsewhere_;  // rows whose target another rank holds
  Tensor local_targets_;
  Tensor ignored_;
};

// exp(-infinity) is 0: neither sums nor gradients have the padding.
void hide_padding(const Tensor& rows, int64_t columns) {
  if (rows.size(1) == columns) return;
  const at::NoGradGuard no_grad;
  rows.narrow(1, columns, rows.size(1) - columns).fill_(-std::numeric_limits<double>::infinity());
}

class Mean : public Operation {
 public:
  Mean(Context& context, double global_count) : context_(context), global_count_(global_count) {}
  std::string name() const override { return "mean"; }
  Tensor forward(const Tensor& sum) override {
    return context_.scheduler().all_reduce(sum.clone(), kRowAxes, "mean").wait().div_(global_count_);
  }
  Tensor backward(const Tensor& grad_output, bool) override { return grad_output / global_count_; }

 private:
  Context& context_;
  double global_count_;
};

}  // namespace

Tensor cross_entropy_sum(Context& context, const Value& logits, const Tensor& targets) {
  AXONN_CHECK(targets.numel() * logits.tensor.size(-1) == logits.tensor.numel(), "layers.cross_entropy",
              "needs one target a row of logits, got targets of sizes ", targets.sizes(), " and logits of sizes ",
              logits.tensor.sizes());
  const auto axis = logits.layout.axis;
  if (!axis || context.shape()[*axis] == 1) {
    const Tensor rows = wide(logits.tensor.reshape({-1, logits.tensor.size(-1)}));
    hide_padding(rows, logits.features);
    return at::cross_entropy_loss(rows, targets.flatten(), {}, at::Reduction::Sum, kIgnoredTarget);
  }
  const auto held = logits.layout.dim(logits.features).local_ranges(context.shape(), context.at());
  AXONN_CHECK(held.size() <= 1, "layers.cross_entropy", "the vocabulary must be one segment, got layout '",
              logits.layout.to_string(), "'");
  return record(std::make_unique<SplitCrossEntropy>(context, *axis, held.empty() ? Range{} : held[0].global, targets),
                logits.tensor);
}

Tensor mean(const Tensor& sum, double global_count, Context& context) {
  AXONN_CHECK(sum.numel() == 1, "layers.mean", "needs a sum (one number), got ", sum.numel(), " numbers");
  AXONN_CHECK(global_count > 0, "layers.mean", "needs a positive global count, got ", global_count);
  return record(std::make_unique<Mean>(context, global_count), sum);
}

}  // namespace axonn
