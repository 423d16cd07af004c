#include "layers/ops/fused_cross_entropy.hpp"

#include <limits>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>

#include "axonn/core/error.hpp"
#include "kernels/gpu/cross_entropy_rows.hpp"

namespace axonn {
namespace {

class FusedCrossEntropy : public Operation {
 public:
  FusedCrossEntropy(Context& context, const VocabularyPart& part, const Tensor& targets)
      : context_(context), part_(part), targets_(targets.flatten().contiguous()) {
    AXONN_CHECK(targets_.numel() <= std::numeric_limits<int>::max(), "layers.cross_entropy",
                "a fused cross entropy takes at most ", std::numeric_limits<int>::max(), " rows, got ",
                targets_.numel(), "; choose a smaller micro-batch");
  }

  std::string name() const override { return "fused cross_entropy"; }

  Tensor forward(const Tensor& input) override {
    const Tensor logits = input.contiguous();
    logits_.keep(logits);
    log_sums_ = at::empty({targets_.numel()}, logits.options().dtype(wide_type(logits)));
    Tensor target_logits = at::empty_like(log_sums_);
    cross_entropy_forward(rows(logits), log_sums_.data_ptr(), target_logits.data_ptr(), index(logits));
    if (part_.axis) {
      const Tensor greatest = all_reduced(log_sums_.clone(), "cross_entropy max", ReduceOp::max);
      const Tensor parts =
          all_reduced(at::stack({(log_sums_ - greatest).exp_(), target_logits}), "cross_entropy sums", ReduceOp::sum);
      log_sums_ = parts[0].log().add_(greatest);
      target_logits = parts[1];
    }
    return (log_sums_ - target_logits).masked_fill_(targets_.eq(part_.ignored), 0).sum();
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    AXONN_CHECK(log_sums_.defined(), "layers.cross_entropy",
                "the gradient is in the place of the logits, so backward runs once; choose kernels without "
                "cross-entropy (--kernels)");
    const Tensor logits = logits_.get();
    cross_entropy_backward(rows(logits), log_sums_.const_data_ptr(), grad_output.const_data_ptr(), index(logits));
    log_sums_.reset();
    return logits.detach();
  }

  void release() override { logits_.reset(); }

 private:
  static int index(const Tensor& logits) { return logits.get_device(); }

  LogitRows rows(const Tensor& logits) const {
    return {.logits = logits.data_ptr(),
            .type = logits.scalar_type(),
            .rows = targets_.numel(),
            .width = logits.size(-1),
            .columns = part_.columns.size(),
            .first = part_.columns.begin,
            .vocabulary = part_.vocabulary,
            .targets = targets_.const_data_ptr<int64_t>(),
            .ignored = part_.ignored};
  }

  Tensor all_reduced(Tensor tensor, const char* what, ReduceOp op) {
    return context_->scheduler().all_reduce(std::move(tensor), *part_.axis, what, op).wait();
  }

  ContextHandle context_;
  VocabularyPart part_;
  Tensor targets_;   // (rows)
  Tensor log_sums_;  // (rows), of the whole vocabulary; undefined after backward
  Saved logits_;
};

}  // namespace

std::unique_ptr<Operation> fused_cross_entropy(Context& context, const VocabularyPart& part, const Tensor& targets) {
  return std::make_unique<FusedCrossEntropy>(context, part, targets);
}

}  // namespace axonn
