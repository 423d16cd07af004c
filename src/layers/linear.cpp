#include "axonn/layers/linear.hpp"

#include <utility>

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "axonn/core/error.hpp"
#include "layers/operation.hpp"

namespace axonn {
namespace {

// block (+)= a b, where the block may be of a wider type.
void put_product(const Tensor& block, const Tensor& a, const Tensor& b, bool add) {
  Tensor out = block;
  if (block.scalar_type() == a.scalar_type())
    at::addmm_out(out, block, a, b, add ? 1 : 0);
  else
    add ? out.add_(at::mm(a, b)) : out.copy_(at::mm(a, b));
}

// Shapes: k = in features, n = out features, m = rows of this rank; k/in means "split over the in axis".
class LinearOperation : public Operation {
 public:
  LinearOperation(Context& context, const LinearImpl& layer, ShardedParameter weight, std::optional<ShardedParameter> bias)
      : context_(context), in_axis_(layer.in_axis()), out_axis_(layer.out_axis()), weight_(std::move(weight)), bias_(std::move(bias)) {}

  const char* name() const override { return "linear"; }

  Tensor forward(const Tensor& input /* (..., k/in) */) override {
    input_.keep(input);
    auto weight = weight_.gathered();  // (n/out, k/in)
    const bool whole = context_.shape()[in_axis_] == 1;
    Tensor output = bias_ && whole ? at::addmm(*bias_->gathered(), rows_of(input), weight->t()) : at::mm(rows_of(input), weight->t());
    output = context_.scheduler().all_reduce(std::move(output), in_axis_, weight_.name()).wait();  // (m, n/out)
    if (bias_ && !whole) output.add_(*bias_->gathered());
    std::vector<int64_t> shape = input.sizes().vec();
    shape.back() = output.size(1);
    return output.view(shape);
  }

  Tensor backward(const Tensor& grad_output /* (..., n/out) */, bool input_needed) override {
    const Tensor input = input_.get(), grad = rows_of(grad_output);
    Pending grad_input{Tensor()};
    if (input_needed) {
      auto weight = weight_.gathered();
      grad_input = context_.scheduler().all_reduce(at::mm(grad, *weight), out_axis_, weight_.name());
    }
    weight_.reduce([&](const Tensor& block, bool add) { put_product(block, grad.t(), rows_of(input), add); });
    if (bias_) bias_->reduce([&](const Tensor& block, bool add) { put_sum(block, grad, add); });
    return input_needed ? grad_input.wait().view(input.sizes()) : Tensor();
  }

  void release() override { input_.reset(); }

 private:
  Context& context_;
  Axis in_axis_;
  Axis out_axis_;
  ShardedParameter weight_;
  std::optional<ShardedParameter> bias_;
  Saved input_;
};

}  // namespace

LinearImpl::LinearImpl(Context& context, LinearOptions options)
    : ShardedModule(context),
      options_(std::move(options)),
      weight_(register_sharded("weight", {.spec = weight_spec(), .initial = options_.weight_initial})) {
  AXONN_CHECK(options_.in > 0 && options_.out > 0, "layers.linear", "in and out must be positive, got ", options_.in, " and ",
              options_.out);
  add_bias();
}

LinearImpl::LinearImpl(Context& context, LinearOptions options, ShardedParameter weight)
    : ShardedModule(context), options_(std::move(options)), weight_(std::move(weight)) {
  AXONN_CHECK(weight_.spec() == weight_spec(), "layers.linear", "a tied weight must be ", weight_spec().to_string(), ", got ",
              weight_.spec().to_string());
  add_bias();
}

ShardSpec LinearImpl::weight_spec() const {
  return {.dims = {output_layout().dim(options_.out), Dim::split(options_.in, in_axis())}, .over_z = true};
}

void LinearImpl::add_bias() {
  if (options_.bias) bias_ = register_sharded("bias", {.spec = {.dims = {output_layout().dim(options_.out)}}, .decay = false});
}

Tensor LinearImpl::forward(const Tensor& input) {
  const Value given{input, options_.in, options_.input.value_or(input_layout())};
  const Value result = forward(redistribute(context(), given, input_layout()));
  return options_.output ? redistribute(context(), result, *options_.output).tensor : result.tensor;
}

Value LinearImpl::forward(const Value& input) {
  check_layout(input, options_.in, input_layout(), "layers.linear");
  const int64_t width = input_layout().dim(options_.in).local_size(context().shape(), context().at());
  AXONN_CHECK(input.tensor.size(-1) == width, "layers.linear", "input must hold ", width, " of the ", options_.in,
              " features on this rank (", input.layout.to_string(), "), got ", input.tensor.size(-1));
  auto operation = std::make_unique<LinearOperation>(context(), *this, weight_, bias_);
  const Tensor output =
      bias_ ? record(std::move(operation), input.tensor, {&weight_, &*bias_}) : record(std::move(operation), input.tensor, {&weight_});
  return {output, options_.out, output_layout()};
}

}  // namespace axonn
