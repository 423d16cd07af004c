#include "axonn/layers/gelu.hpp"

#include <ATen/ops/add.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>

#include "layers/operation.hpp"
#include "layers/ops/stream_rows.hpp"
#include "kernels/cpu/gelu_chains.hpp"

namespace axonn {
namespace {

class Gelu : public Operation {
 public:
  // `rows`: the axis whose ranks divide the rows.
  Gelu(ShardedParameter bias, AxisSet rows) : bias_(std::move(bias)), rows_(rows) {}
  std::string name() const override { return "gelu " + bias_.name(); }

  Tensor forward(const Tensor& input) override {
    input_.keep(input);
    const Tensor bias = *bias_.gathered();
    return input.is_cpu() ? gelu_on_cpu(input, bias) : at::gelu(input + bias, "tanh");
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    const Tensor input = input_.get(), bias = *bias_.gathered();
    if (!input.is_cpu()) {
      const Tensor grad = at::gelu_backward(grad_output, input + bias, "tanh");
      sum_bias(grad);
      return grad;
    }
    const auto [grad, sums] = gelu_gradient_on_cpu(grad_output, input, bias);
    sum_bias(sums);
    return grad;
  }

  void release() override { input_.reset(); }

 private:
  void sum_bias(const Tensor& values) {
    reduce_over(bias_.scheduler(), rows_, bias_, [&](const Tensor& block, bool add) { put_sum(block, values, add); });
  }

  ShardedParameter bias_;
  AxisSet rows_;
  Saved input_;
};

}  // namespace

Value gelu(const Value& value, const ShardedParameter& bias) {
  return {record(std::make_unique<Gelu>(bias, value.layout.rows_axis()), value.tensor, {&bias}), value.features,
          value.layout};
}

Value gelu(const Value& value) {
  return value.map([](const Tensor& tensor) { return at::gelu(tensor, "tanh"); });
}

}  // namespace axonn
