#include "layers/ops/linear_operation.hpp"

#include <utility>

#include <ATen/ops/_unsafe_view.h>

#include "kernels/cpu/row_dots.hpp"
#include "layers/ops/row_sum.hpp"
#include "layers/ops/stream_rows.hpp"

namespace axonn {
namespace {

// Shapes: k = in features, n = out features, m = rows of all ranks that divide them; k/in means
// "split over the in axis".
class LinearOperation : public Operation {
 public:
  LinearOperation(Context& context, LinearCall call) : context_(context), call_(std::move(call)) {}

  std::string name() const override { return "linear " + call_.weight.name(); }

  Tensor forward(const Tensor& input /* (..., k/in) */) override {
    input_.keep(input);
    Pending inputs = all_rows(context_, input, call_.input, tag());
    const auto weight = call_.weight.gathered();
    const Tensor rows = rows_of(inputs.wait());
    const Tensor bias = call_.bias ? *call_.bias->gathered() : Tensor();
    const Factors factors{rows, *weight, call_.low_rank ? call_.low_rank->weights() : LowRank::Weights()};
    const bool whole = context_->shape()[call_.in_axis] == 1 && !call_.elsewhere;
    TailedRows output =  // (m, n/out), or this rank's rows of it
        whole ? with_tail(product_of(factors, bias), call_.tail) : summed(factors, bias);
    *call_.finish = std::move(output.finish);
    std::vector<int64_t> shape = call_.leading;
    shape.push_back(weight->size(0));
    return at::_unsafe_view(output.output, shape);  // not a view: autograd would refuse the in-place adds in finish
  }

  Tensor backward(const Tensor& grad_output /* (..., n/out) */, bool input_needed) override {
    const Tensor input = input_.get();
    const bool reads_rows = call_.weight.trained() || call_.low_rank;
    Pending inputs = reads_rows ? all_rows(context_, input, call_.input, tag()) : Pending(input);
    const Tensor grad = rows_of(all_rows(context_, call_.tail->gradient(grad_output), call_.output, tag()).wait());
    const Tensor grad_narrow = call_.low_rank ? call_.low_rank->grad_of_narrow(grad) : Tensor();
    Pending grad_input{Tensor()};
    if (input_needed) {
      auto weight = call_.weight.gathered();
      const Tensor product = gemm(kernel(GemmUse::grad_input, grad, *weight), grad, weight->t());
      if (call_.low_rank) call_.low_rank->add_gradient(product, grad_narrow);
      grad_input = sum_of_rows(context_, product, call_.out_axis, call_.input, tag());
    }
    reduce(grad, grad_narrow, rows_of(inputs.wait()));
    return input_needed ? grad_input.wait().view(input.sizes()) : Tensor();
  }

  void release() override {
    input_.reset();
    call_.tail->release();
  }

 private:
  std::string_view tag() const { return call_.weight.name(); }
  GemmKernel kernel(GemmUse use, const Tensor& rows, const Tensor& weight) const {
    return context_->options().gemm(use, rows.size(0), weight.size(0), weight.size(1));
  }

  // The operands of a forward.
  struct Factors {
    Tensor rows;    // (m, k/in)
    Tensor weight;  // (n/out, k/in)
    LowRank::Weights narrow;
  };

  void add_low_rank(const Tensor& to, const Tensor& rows, const Factors& factors) const {
    if (call_.low_rank) call_.low_rank->add_to(to, rows, factors.narrow);
  }

  // Of all rows, plus `added` if it is defined: (m, n/out).
  Tensor product_of(const Factors& factors, const Tensor& added) const {
    const Tensor &rows = factors.rows, &weight = factors.weight;
    Tensor result;
    if (context_->scheduler().phase() == Phase::generate && has_row_dots(rows, weight))
      result = row_dots(rows, weight, added);
    else
      result = gemm(kernel(GemmUse::output, rows, weight), rows, weight,
                    added.defined() ? std::optional(added) : std::nullopt);
    add_low_rank(result, rows, factors);
    return result;
  }

  // The product's sum over the in axis, with the bias and the tail.
  TailedRows summed(const Factors& factors, const Tensor& bias) const {
    const Tensor &rows = factors.rows, &weight = factors.weight;
    const GemmKernel mm = kernel(GemmUse::output, rows, weight);
    const auto put_rows = [&](const Tensor& to, Range range) {
      const Tensor some = rows.narrow(0, range.begin, range.size());
      gemm_into(mm, to, some, weight, /*add=*/false);
      add_low_rank(to, some, factors);
    };
    const RowProduct parts{.rows = rows.size(0),
                           .width = weight.size(0),
                           .options = rows.options(),
                           .all = [&] { return product_of(factors, {}); },
                           .some = put_rows,
                           .owner = {}};
    if (!call_.output.rows.empty()) return scatter_with_tail(context_, parts, call_.in_axis, tag(), bias, call_.tail);
    return sum_with_tail(context_, parts, call_.in_axis, tag(), bias, call_.tail, call_.elsewhere);
  }

  // The gradients of the parameters, of all rows.
  void reduce(const Tensor& grad, const Tensor& grad_narrow, const Tensor& rows) const {
    call_.weight.reduce([&](const Tensor& block, bool add) {
      gemm_into(kernel(GemmUse::grad_weight, rows, block), block, grad.t(), rows.t(), add);
    });
    if (call_.bias) call_.bias->reduce([&](const Tensor& block, bool add) { put_sum(block, grad, add); });
    if (call_.low_rank)
      call_.low_rank->reduce(context_->scheduler(), call_.in_axis, call_.out_axis, grad, grad_narrow, rows);
  }

  ContextHandle context_;
  LinearCall call_;
  Saved input_;
};

}  // namespace

std::unique_ptr<Operation> linear_operation(Context& context, LinearCall call) {
  return std::make_unique<LinearOperation>(context, std::move(call));
}

}  // namespace axonn
