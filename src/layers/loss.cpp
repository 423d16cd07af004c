#include "axonn/layers/loss.hpp"

#include <limits>

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "axonn/core/error.hpp"
#include "layers/operation.hpp"
#include "kernels/cpu/cross_entropy_chains.hpp"
#include "layers/ops/fused_cross_entropy.hpp"

namespace axonn {
namespace {

// Logits of this rank, (..., n): `columns` of the vocabulary, then padding. They are split over
// `axis`, if there is one.
class CrossEntropy : public Operation {
 public:
  CrossEntropy(Context& context, std::optional<Axis> axis, Range columns, const Tensor& targets)
      : columns_(columns), context_(context), axis_(axis), targets_(targets.flatten()) {}

  std::string name() const override { return "cross_entropy"; }

  Tensor forward(const Tensor& input) override { return of_rows(input).sum(); }

  // The loss of each row: (rows), in a wide type.
  Tensor of_rows(const Tensor& input) {
    const Tensor logits = readable(rows_of(input));
    const Tensor greatest = all_reduced(greatest_of(logits), "cross_entropy max", ReduceOp::max);
    const Tensor sums_here = exponentials(logits, greatest);
    elsewhere_ = targets_.lt(columns_.begin).logical_or_(targets_.ge(columns_.end));
    local_targets_ = (targets_ - columns_.begin).masked_fill_(elsewhere_, 0);
    Tensor target_logit = columns_.size() > 0
                              ? wide(logits.gather(1, local_targets_.unsqueeze(1))).squeeze(1) - greatest
                              : at::zeros_like(greatest);
    target_logit.masked_fill_(elsewhere_, 0);
    const Tensor sums = all_reduced(at::stack({sums_here, target_logit}), "cross_entropy sums", ReduceOp::sum);
    keep(greatest, sums[0]);
    ignored_ = targets_.eq(kIgnoredTarget);
    return (sums[0].log() - sums[1]).masked_fill_(ignored_, 0);
  }

 protected:
  virtual Tensor readable(const Tensor& rows) = 0;
  // Of every row the largest logit here, and the sum of exp(logit - greatest) here: (rows), in a
  // wide type. keep() gets the results of all ranks.
  virtual Tensor greatest_of(const Tensor& logits) = 0;
  virtual Tensor exponentials(const Tensor& logits, const Tensor& greatest) = 0;
  virtual void keep(const Tensor& greatest, const Tensor& sums) = 0;

  Range columns_;
  Tensor elsewhere_;      // rows whose target another rank holds
  Tensor local_targets_;  // columns of the other rows' targets
  Tensor ignored_;

 private:
  Tensor all_reduced(Tensor tensor, const char* what, ReduceOp op) {
    return axis_ ? context_->scheduler().all_reduce(std::move(tensor), *axis_, what, op).wait() : tensor;
  }

  ContextHandle context_;
  std::optional<Axis> axis_;
  Tensor targets_;
};

// Stage chains. Backward computes the probabilities again.
class CrossEntropyOnCpu : public CrossEntropy {
 public:
  using CrossEntropy::CrossEntropy;

  Tensor backward(const Tensor& grad_output, bool) override {
    const Tensor logits = logits_.get(), targets = local_targets_.masked_fill(elsewhere_, kElsewhere);
    return cross_entropy_gradient_on_cpu(rows_of(logits).contiguous(), columns_.size(), greatest_, sums_,
                                         targets.masked_fill_(ignored_, kIgnored), grad_output.item<double>())
        .view(logits.sizes());
  }

  Tensor forward(const Tensor& input) override {
    logits_.keep(input);
    return CrossEntropy::forward(input);
  }

  void release() override { logits_.reset(); }

 protected:
  Tensor readable(const Tensor& rows) override { return rows.contiguous(); }
  Tensor greatest_of(const Tensor& logits) override { return row_maxima_on_cpu(logits, columns_.size()); }
  Tensor exponentials(const Tensor& logits, const Tensor& greatest) override {
    return row_sums_on_cpu(logits, columns_.size(), greatest);
  }
  void keep(const Tensor& greatest, const Tensor& sums) override { greatest_ = greatest, sums_ = sums; }

 private:
  Saved logits_;
  Tensor greatest_, sums_;
};

// A split vocabulary on GPUs.
class SplitCrossEntropy : public CrossEntropy {
 public:
  using CrossEntropy::CrossEntropy;

  Tensor forward(const Tensor& input) override {
    sizes_ = input.sizes().vec();
    type_ = input.scalar_type();
    return CrossEntropy::forward(input);
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    Tensor grad = at::zeros({probabilities_.size(0), sizes_.back()}, probabilities_.options());  // padding stays 0
    const Tensor part = grad.narrow(1, 0, columns_.size());
    part.copy_(probabilities_);
    if (columns_.size() > 0)
      part.scatter_add_(1, local_targets_.unsqueeze(1),
                        elsewhere_.logical_not().to(grad.scalar_type()).neg_().unsqueeze_(1));
    return grad.masked_fill_(ignored_.unsqueeze(1), 0).mul_(grad_output).view(sizes_).to(type_);
  }

  void release() override { probabilities_.reset(); }

 protected:
  Tensor readable(const Tensor& rows) override { return wide(rows.narrow(1, 0, columns_.size())); }
  Tensor greatest_of(const Tensor& logits) override {
    return columns_.size() > 0 ? logits.amax(1)
                               : at::full({logits.size(0)}, -std::numeric_limits<double>::infinity(), logits.options());
  }
  Tensor exponentials(const Tensor& logits, const Tensor& greatest) override {
    probabilities_ = (logits - greatest.unsqueeze(1)).exp_();
    return probabilities_.sum(1);
  }
  void keep(const Tensor&, const Tensor& sums) override { probabilities_.div_(sums.unsqueeze(1)); }

 private:
  std::vector<int64_t> sizes_;
  at::ScalarType type_ = at::kFloat;
  Tensor probabilities_;
};

// A target beyond the vocabulary would count as one that another rank holds.
void check_targets(const Tensor& targets, int64_t vocabulary) {
  const Tensor wrong = targets.ge(vocabulary).logical_or_(targets.lt(0)).logical_and_(targets.ne(kIgnoredTarget));
  AXONN_CHECK(!wrong.any().item<bool>(), "layers.cross_entropy", "targets must be below ", vocabulary,
              ", the size of the vocabulary, or ", kIgnoredTarget, ", got ",
              targets.masked_select(wrong)[0].item<int64_t>());
}

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
    if (context_->shape().size(kRowAxes) == 1) return sum / global_count_;
    return context_->scheduler().all_reduce(sum.clone(), kRowAxes, "mean").wait().div_(global_count_);
  }
  Tensor backward(const Tensor& grad_output, bool) override { return grad_output / global_count_; }

 private:
  ContextHandle context_;
  double global_count_;
};

class MeanOverRanks : public Operation {
 public:
  MeanOverRanks(Context& context, double count, double count_in_step)
      : context_(context), count_(count), count_in_step_(count_in_step) {}
  std::string name() const override { return "mean_over_ranks"; }
  Tensor forward(const Tensor& mean) override {
    Tensor sums = at::zeros({2}, mean.options().dtype(at::kDouble));
    if (count_ > 0) sums[0] = mean.reshape({}).to(at::kDouble) * count_;  // a mean of nothing is not a number
    sums[1] = count_in_step_;
    sums = context_->scheduler().all_reduce(std::move(sums), kRowAxes, "mean").wait();
    const auto all = sums[1].item<double>();
    AXONN_CHECK(all > 0, "layers.mean", "no rank has a row; leave out a step without rows, on every rank");
    weight_ = count_ / all;
    return (sums[0] / all).to(mean.scalar_type()).view(mean.sizes());
  }
  Tensor backward(const Tensor& grad_output, bool) override { return grad_output * weight_; }

 private:
  ContextHandle context_;
  double count_, count_in_step_, weight_ = 0;
};

void check_one_target_per_row(const Tensor& logits, const Tensor& targets) {
  AXONN_CHECK(targets.numel() * logits.size(-1) == logits.numel(), "layers.cross_entropy",
              "needs one target per row of logits, got targets of sizes ", targets.sizes(), " and logits of sizes ",
              logits.sizes());
}

// The axis over which the vocabulary is split, if any.
std::optional<Axis> split_axis(const Context& context, const Value& logits) {
  const auto axis = logits.layout.axis;
  return axis && context.shape()[*axis] > 1 ? axis : std::nullopt;
}

// The part of the vocabulary that this rank holds.
Range columns_here(const Context& context, const Value& logits) {
  const auto held = logits.layout.dim(logits.features).local_ranges(context.shape(), context.at());
  AXONN_CHECK(held.size() <= 1, "layers.cross_entropy", "the vocabulary must be one segment, got layout '",
              logits.layout.to_string(), "'");
  return held.empty() ? Range{} : held[0].global;
}

}  // namespace

Tensor cross_entropy_sum(Context& context, const Value& logits, const Tensor& targets) {
  check_one_target_per_row(logits.tensor, targets);
  const auto axis = split_axis(context, logits);
  const bool on_cpu = logits.tensor.is_cpu(), fused = !on_cpu && context.options().kernels.cross_entropy;
  if (!axis && !on_cpu && !fused) {
    const Tensor rows = logits.tensor.reshape({-1, logits.tensor.size(-1)});
    hide_padding(rows, logits.features);
    return at::cross_entropy_loss(wide(rows), targets.flatten(), {}, at::Reduction::Sum, kIgnoredTarget);
  }
  const Range columns = columns_here(context, logits);
  if (on_cpu) check_targets(targets, logits.features);
  std::unique_ptr<Operation> operation;
  if (on_cpu)
    operation = std::make_unique<CrossEntropyOnCpu>(context, axis, columns, targets);
  else if (fused)
    operation = fused_cross_entropy(
        context, {.axis = axis, .columns = columns, .vocabulary = logits.features, .ignored = kIgnoredTarget}, targets);
  else
    operation = std::make_unique<SplitCrossEntropy>(context, axis, columns, targets);
  return record(std::move(operation), logits.tensor);
}

Tensor cross_entropy_rows(Context& context, const Value& logits, const Tensor& targets) {
  const at::NoGradGuard no_grad;
  check_one_target_per_row(logits.tensor, targets);
  check_targets(targets, logits.features);
  const auto axis = split_axis(context, logits);
  const Range columns = columns_here(context, logits);
  const Tensor losses = logits.tensor.is_cpu()
                            ? CrossEntropyOnCpu(context, axis, columns, targets).of_rows(logits.tensor)
                            : SplitCrossEntropy(context, axis, columns, targets).of_rows(logits.tensor);
  return losses.view(targets.sizes());
}

Tensor mean(const Tensor& sum, double global_count, Context& context) {
  AXONN_CHECK(sum.numel() == 1, "layers.mean", "needs a sum (one number), got ", sum.numel(), " numbers");
  AXONN_CHECK(global_count > 0, "layers.mean", "needs a positive global count, got ", global_count);
  return record(std::make_unique<Mean>(context, global_count), sum);
}

Tensor mean_over_ranks(const Tensor& mean, double count, Context& context, double count_in_step) {
  AXONN_CHECK(mean.numel() == 1, "layers.mean", "needs a mean (one number), got ", mean.numel(), " numbers");
  if (count_in_step == 0) count_in_step = count;
  AXONN_CHECK(count >= 0 && count_in_step >= count, "layers.mean",
              "needs a count of at least 0, and at least as many in the step, got ", count, " and ", count_in_step);
  return record(std::make_unique<MeanOverRanks>(context, count, count_in_step), mean);
}

}  // namespace axonn
