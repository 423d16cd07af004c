#pragma once

#include <initializer_list>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/sum.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "axonn/layers/context.hpp"

namespace axonn {

using at::Tensor;

// One differentiable step of a sharded layer: forward and backward are members of one object, which
// autograd keeps until backward has run. Gradients of parameters go to the scheduler inside
// backward(), never through autograd.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual std::string name() const = 0;  // for traces: "linear h.0.mlp.fc.weight"
  virtual Tensor forward(const Tensor& input) = 0;
  // `input_needed`: whether the gradient of `input` is needed; if not, the result may be undefined.
  virtual Tensor backward(const Tensor& grad_output, bool input_needed) = 0;
  virtual void release() {}  // drop what forward saved
  // Of record_branch(), before backward(): the gradient of the stream (undefined: none).
  virtual void take_stream_gradient(Tensor) {}
  // After backward(): the gradient of the second input.
  virtual Tensor second_gradient(const Tensor& grad_output) { return grad_output; }
};

// A second input. Its gradient is second_gradient(): that of the output, where the operation adds
// it to the result.
struct SecondInput {
  Tensor tensor;  // undefined: none
};

// Runs forward. If autograd is on and `input` or a parameter needs a gradient, it also records the
// step and counts a use of every parameter that is not frozen. Because of these, backward runs even
// if the input needs no gradient.
Tensor record(std::unique_ptr<Operation> operation, const Tensor& input,
              std::span<const ShardedParameter* const> parameters, const SecondInput& second = {});
inline Tensor record(std::unique_ptr<Operation> operation, const Tensor& input,
                     std::initializer_list<const ShardedParameter*> parameters = {}, const SecondInput& second = {}) {
  return record(std::move(operation), input, std::span(parameters.begin(), parameters.size()), second);
}

// The same without parameters, from several tensors to several.
class TensorOperation {
 public:
  virtual ~TensorOperation() = default;
  virtual std::string name() const = 0;
  virtual std::vector<Tensor> forward(const std::vector<Tensor>& inputs) = 0;
  // The gradients of all outputs -> those of all inputs.
  virtual std::vector<Tensor> backward(const std::vector<Tensor>& gradients) = 0;
  virtual void release() {}
};
// If autograd is on and an input needs a gradient, every output has one.
std::vector<Tensor> record(std::unique_ptr<TensorOperation> operation, const std::vector<Tensor>& inputs);

// A stream that a branch begins at, and the branch.
struct Branched {
  Tensor stream, branch;
};

// As record(), of an operation whose backward adds the gradient of the stream to that of the
// branch, in the place of autograd. The stream has the input's values.
Branched record_branch(std::unique_ptr<Operation> operation, const Tensor& input,
                       std::initializer_list<const ShardedParameter*> parameters);

// An input kept for backward. get() throws torch's own error if the tensor was overwritten in
// place.
class Saved {
 public:
  void keep(const Tensor& tensor) { variable_ = torch::autograd::SavedVariable(tensor, /*is_output=*/false); }
  Tensor get() const { return variable_.unpack(); }
  void reset() { variable_.reset_data(); }

 private:
  torch::autograd::SavedVariable variable_;
};

// fp32 in place of bf16 and fp16, which are too narrow for statistics and losses.
inline at::ScalarType wide_type(const Tensor& tensor) {
  return tensor.element_size() == 2 ? at::kFloat : tensor.scalar_type();
}
inline Tensor wide(const Tensor& tensor) { return tensor.to(wide_type(tensor)); }

// block (+)= the sum of the rows of `values` (..., n), in the block's type.
inline void put_sum(const Tensor& block, const Tensor& values, bool add) {
  Tensor out = block;
  const std::vector<int64_t> leading = [&] {
    std::vector<int64_t> dims(static_cast<size_t>(values.dim()) - 1);
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }();
  if (add)
    out.add_(at::sum(values, leading, /*keepdim=*/false, block.scalar_type()));
  else
    at::sum_out(out, values, leading, /*keepdim=*/false, block.scalar_type());
}

// Flattens all dims but the last: (..., n) -> (rows, n), also for n = 0.
inline Tensor rows_of(const Tensor& tensor) {
  const auto leading = tensor.sizes().slice(0, static_cast<size_t>(tensor.dim()) - 1);
  return tensor.reshape({c10::multiply_integers(leading), tensor.size(-1)});
}

}  // namespace axonn
