#include "axonn/layers/linear.hpp"

#include <utility>

#include <ATen/ops/_unsafe_view.h>

#include "axonn/core/error.hpp"
#include "layers/feature_dropout.hpp"
#include "layers/ops/linear_chain.hpp"
#include "layers/operation.hpp"
#include "layers/ops/row_sum.hpp"

namespace axonn {
namespace {

// Shapes: k = in features, n = out features, m = rows of this rank; k/in means "split over the in
// axis".
class LinearOperation : public Operation {
 public:
  LinearOperation(Context& context, const LinearImpl& layer, ShardedParameter weight,
                  std::optional<ShardedParameter> bias, std::shared_ptr<RowTail> tail,
                  std::function<Pending(const RowProduct&)> elsewhere, std::shared_ptr<std::function<void()>> finish)
      : context_(context),
        in_axis_(layer.in_axis()),
        out_axis_(layer.out_axis()),
        weight_(std::move(weight)),
        bias_(std::move(bias)),
        tail_(std::move(tail)),
        elsewhere_(std::move(elsewhere)),
        finish_(std::move(finish)) {}

  std::string name() const override { return "linear " + weight_.name(); }

  Tensor forward(const Tensor& input /* (..., k/in) */) override {
    input_.keep(input);
    const auto weight = weight_.gathered();  // (n/out, k/in)
    const Tensor rows = rows_of(input);
    const GemmKernel mm = kernel(GemmUse::output, rows, *weight);
    const int64_t m = rows.size(0), n = weight->size(0);
    const Tensor bias = bias_ ? *bias_->gathered() : Tensor();
    const RowProduct product{
        .rows = m,
        .width = n,
        .options = rows.options(),
        .all = [&] { return gemm(mm, rows, *weight); },
        .some = [&](const Tensor& to,
                    Range some) { gemm_into(mm, to, rows.narrow(0, some.begin, some.size()), *weight, /*add=*/false); },
        .owner = {}};
    const bool whole = context_->shape()[in_axis_] == 1 && !elsewhere_;
    TailedRows output =  // (m, n/out)
        whole ? with_tail(gemm(mm, rows, *weight, bias_ ? std::optional(bias) : std::nullopt), tail_)
              : sum_with_tail(context_, product, in_axis_, weight_.name(), bias, tail_, elsewhere_);
    *finish_ = std::move(output.finish);
    std::vector<int64_t> shape = input.sizes().vec();
    shape.back() = n;
    return at::_unsafe_view(output.output, shape);  // not a view: autograd would refuse the in-place adds in finish_
  }

  Tensor backward(const Tensor& grad_output /* (..., n/out) */, bool input_needed) override {
    const Tensor input = input_.get(), rows = rows_of(input), grad = rows_of(tail_->gradient(grad_output));
    Pending grad_input{Tensor()};
    if (input_needed) {
      auto weight = weight_.gathered();
      grad_input = context_->scheduler().all_reduce(gemm(kernel(GemmUse::grad_input, rows, *weight), grad, weight->t()),
                                                    out_axis_, weight_.name());
    }
    weight_.reduce([&](const Tensor& block, bool add) {
      gemm_into(kernel(GemmUse::grad_weight, rows, block), block, grad.t(), rows.t(), add);
    });
    if (bias_) bias_->reduce([&](const Tensor& block, bool add) { put_sum(block, grad, add); });
    return input_needed ? grad_input.wait().view(input.sizes()) : Tensor();
  }

  void release() override {
    input_.reset();
    tail_->release();
  }

 private:
  GemmKernel kernel(GemmUse use, const Tensor& rows, const Tensor& weight) const {
    return context_->options().gemm(use, rows.size(0), weight.size(0), weight.size(1));
  }

  ContextHandle context_;
  Axis in_axis_;
  Axis out_axis_;
  ShardedParameter weight_;
  std::optional<ShardedParameter> bias_;
  std::shared_ptr<RowTail> tail_;
  std::function<Pending(const RowProduct&)> elsewhere_;  // empty: the sum is the output
  std::shared_ptr<std::function<void()>> finish_;        // the rest of the forward
  Saved input_;
};

}  // namespace

LinearImpl::LinearImpl(Context& context, LinearOptions options)
    : ShardedModule(context),
      options_(std::move(options)),
      weight_(register_sharded("weight", {.spec = weight_spec(), .initial = options_.weight_initial})) {
  AXONN_CHECK(options_.in > 0 && options_.out > 0, "layers.linear", "in and out must be positive, got ", options_.in,
              " and ", options_.out);
  add_bias();
}

LinearImpl::LinearImpl(Context& context, LinearOptions options, ShardedParameter weight)
    : ShardedModule(context), options_(std::move(options)), weight_(std::move(weight)) {
  AXONN_CHECK(weight_.spec() == weight_spec(), "layers.linear", "a tied weight must be ", weight_spec().to_string(),
              ", got ", weight_.spec().to_string());
  add_bias();
}

ShardSpec LinearImpl::weight_spec() const {
  return {.dims = {output_layout().dim(options_.out), Dim::split(options_.in, in_axis())}, .over_z = true};
}

void LinearImpl::add_bias() {
  if (options_.bias)
    bias_ = register_sharded(
        "bias",
        {.spec = {.dims = {output_layout().dim(options_.out)}}, .initial = options_.bias_initial, .decay = false});
}

Tensor LinearImpl::forward(const Tensor& input) {
  const Value given{input, options_.in, options_.input.value_or(input_layout())};
  const Value result = forward(redistribute(context(), given, input_layout()));
  return options_.output ? redistribute(context(), result, *options_.output).tensor : result.tensor;
}

Value LinearImpl::forward(const Value& input) { return launch(input).wait(); }

PendingValue LinearImpl::launch(const Value& input) { return launch(input, nullptr, {}); }

PendingValue LinearImpl::launch(const Value& input, const AddTo& add) { return launch(input, &add, {}); }

void LinearImpl::check_addition() const {
  AXONN_CHECK(!options_.pad_output, "layers.linear",
              "an output with padding cannot be added to a stream; choose pad_output = false");
  AXONN_CHECK(
      options_.adds_bias, "layers.linear",
      "a layer that leaves its bias to the next operation cannot add its output to a stream; choose adds_bias = "
      "true");
}

void LinearImpl::check_input(const Value& input) const {
  check_layout(input, options_.in, input_layout(), "layers.linear");
  const int64_t width = input_layout().dim(options_.in).local_size(context().shape(), context().at());
  AXONN_CHECK(input.tensor.size(-1) == width, "layers.linear", "input must hold ", width, " of the ", options_.in,
              " features on this rank (", input.layout.to_string(), "), got ", input.tensor.size(-1));
}

bool LinearImpl::has_epilogues(const Tensor& input, double dropout) const {
  constexpr int64_t kColumns = 8;  // cuBLASLt's epilogues take that many together
  return input.is_cuda() && input.element_size() == 2 && input.numel() > 0 && dropout == 0 && bias_ &&
         options_.adds_bias && options_.in % kColumns == 0 && options_.out % kColumns == 0 &&
         context().shape().x == 1 && context().shape().y == 1 && context().options().kernels.epilogues;
}

bool LinearImpl::joins(const LinearImpl& before, const Value& input, double dropout) const {
  return before.has_epilogues(input.tensor, 0) && has_epilogues(input.tensor, dropout);
}

PendingValue LinearImpl::launch_joined(LinearImpl& before, const Value& input, const AddTo& add) {
  check_addition();
  before.check_input(input);
  check_layout(add.stream, options_.out, output_layout(), "layers.linear");
  const Tensor& stream = add.stream.tensor;
  auto operation = linear_chain({{before.weight_, *before.bias_}, {weight_, *bias_}}, stream.detach());
  const Tensor output =
      record(std::move(operation), input.tensor, {&before.weight_, &*before.bias_, &weight_, &*bias_}, {stream});
  return {{output, options_.out, output_layout()}, [] {}};
}

PendingValue LinearImpl::launch(const Value& input, const AddTo* add, const SumElsewhere& elsewhere) {
  if (add != nullptr) check_addition();
  check_input(input);
  const auto finish = std::make_shared<std::function<void()>>([] {});
  const std::optional<ShardedParameter> bias = options_.adds_bias ? bias_ : std::nullopt;
  const Tensor stream = add != nullptr ? add->stream.tensor : Tensor();
  const at::IntArrayRef sizes = input.tensor.sizes();
  const auto tail = make_tail(context(), add, feature_dropout(context(), add), output_layout(), options_.out,
                              sizes.slice(0, sizes.size() - 1), "layers.linear");
  std::unique_ptr<Operation> operation;
  if (!elsewhere && has_epilogues(input.tensor, add != nullptr ? add->dropout : 0))
    operation = linear_chain({{weight_, *bias}}, stream.defined() ? stream.detach() : Tensor());
  else
    operation = std::make_unique<LinearOperation>(context(), *this, weight_, bias, tail, elsewhere, finish);
  const Tensor output = bias ? record(std::move(operation), input.tensor, {&weight_, &*bias}, {stream})
                             : record(std::move(operation), input.tensor, {&weight_}, {stream});
  return {{output, options_.out, output_layout()}, std::move(*finish)};
}

}  // namespace axonn
