#include "layers/fused/linear_chain.hpp"

#include <utility>

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "layers/fused/product.hpp"

namespace axonn {
namespace {

// Of two dims, contiguous or the transpose of such a tensor.
ProductMatrix matrix(const Tensor& tensor) {
  const bool transposed = !tensor.is_contiguous();
  return {.data = tensor.data_ptr(),
          .type = tensor.scalar_type(),
          .rows = tensor.size(0),
          .columns = tensor.size(1),
          .leading = tensor.size(transposed ? 0 : 1),
          .transposed = transposed};
}

class LinearChain : public Operation {
 public:
  LinearChain(std::vector<ChainedLinear> layers, Tensor stream)
      : layers_(std::move(layers)), stream_(std::move(stream)) {}

  std::string name() const override { return "linear chain " + layers_.back().weight.name(); }

  Tensor forward(const Tensor& input /* (..., k) */) override {
    input_.keep(input);
    rows_ = {rows_of(input).contiguous()};
    for (const ChainedLinear& layer : layers_) {
      const auto weight = layer.weight.gathered(), bias = layer.bias.gathered();
      const Tensor output = at::empty({rows_[0].size(0), weight->size(0)}, input.options());
      Product product{.out = matrix(output), .a = matrix(rows_.back()), .b = matrix(*weight)};
      product.bias = bias->const_data_ptr();
      if (rows_.size() < layers_.size())
        product.gelu_input = gelu_inputs_.emplace_back(at::empty_like(output)).data_ptr();
      else if (stream_.defined())
        product.added = (stream_ = stream_.contiguous()).const_data_ptr();
      multiply(product, output.get_device());
      rows_.push_back(output);
    }
    const Tensor output = rows_.back();
    rows_.pop_back();
    stream_.reset();
    std::vector<int64_t> shape = input.sizes().vec();
    shape.back() = output.size(1);
    return at::_unsafe_view(output, shape);
  }

  Tensor backward(const Tensor& grad_output /* (..., n) */, bool input_needed) override {
    const Tensor input = input_.get();  // tells whether it was overwritten
    Tensor grad = rows_of(grad_output).contiguous();
    for (size_t i = layers_.size(); i-- > 0;) {
      Tensor grad_input;
      if (i > 0 || input_needed) {
        const auto weight = layers_[i].weight.gathered();
        grad_input = at::empty_like(rows_[i]);
        Product product{.out = matrix(grad_input), .a = matrix(grad), .b = matrix(weight->t())};
        if (i > 0) product.gelu_gradient_at = gelu_inputs_[i - 1].const_data_ptr();
        multiply(product, grad.get_device());
      }
      reduce(layers_[i], grad, rows_[i]);
      grad = grad_input;
    }
    return grad.defined() ? grad.view(input.sizes()) : grad;
  }

  void release() override {
    input_.reset();
    rows_.clear();
    gelu_inputs_.clear();
  }

 private:
  // The gradients of weight and bias, by one product.
  static void reduce(const ChainedLinear& layer, const Tensor& grad, const Tensor& rows) {
    layer.weight.reduce([&](const Tensor& block, bool add) {
      layer.bias.reduce([&](const Tensor& sums, bool add_sums) {
        const Tensor here = add_sums ? at::empty_like(sums) : sums;
        Product product{.out = matrix(block), .a = matrix(grad.t()), .b = matrix(rows.t())};
        if (add) product.added = block.const_data_ptr();
        product.sums_of_a = here.data_ptr();
        multiply(product, grad.get_device());
        if (add_sums) sums.add_(here);
      });
    });
  }

  std::vector<ChainedLinear> layers_;
  Tensor stream_;
  Saved input_;
  std::vector<Tensor> rows_;         // the input of each layer (m, k)
  std::vector<Tensor> gelu_inputs_;  // the outputs of all layers but the last, before GELU
};

}  // namespace

std::unique_ptr<Operation> linear_chain(std::vector<ChainedLinear> layers, Tensor stream) {
  return std::make_unique<LinearChain>(std::move(layers), std::move(stream));
}

}  // namespace axonn
