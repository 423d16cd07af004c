#include "layers/ops/linear_chain.hpp"

#include <utility>

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "kernels/gpu/linear_terms.hpp"

namespace axonn {
namespace {

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
      LinearTerms terms{.out = output, .a = rows_.back(), .b = *weight, .bias = *bias};
      if (rows_.size() < layers_.size())
        terms.gelu_input = gelu_inputs_.emplace_back(at::empty_like(output));
      else if (stream_.defined())
        terms.added = stream_.contiguous();
      multiply(terms);
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
        LinearTerms terms{.out = grad_input, .a = grad, .b = weight->t()};
        if (i > 0) terms.gelu_gradient_at = gelu_inputs_[i - 1];
        multiply(terms);
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
        LinearTerms terms{.out = block, .a = grad.t(), .b = rows.t(), .sums_of_a = here};
        if (add) terms.added = block;
        multiply(terms);
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
