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

#include "axonn/layers/context.hpp"
#include "axonn/layers/layer_operation.hpp"

namespace axonn {

using at::Tensor;

// A second input. Its gradient is that of the output, where the operation adds it to the result;
// that of a StreamOperation is its second_gradient().
struct SecondInput {
  Tensor tensor;  // undefined: none
};

// An operation that takes or gives a gradient besides those of input and output.
class StreamOperation : public Operation {
 public:
  // Of record_branch(), before backward(): the gradient of the stream (undefined: none).
  virtual void take_stream_gradient(Tensor) {}
  // After backward(): the gradient of the second input.
  virtual Tensor second_gradient(const Tensor& grad_output) { return grad_output; }
};

Tensor record(std::unique_ptr<Operation> operation, const Tensor& input,
              std::span<const ShardedParameter* const> parameters, const SecondInput& second);
inline Tensor record(std::unique_ptr<Operation> operation, const Tensor& input,
                     std::initializer_list<const ShardedParameter*> parameters, const SecondInput& second) {
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

// As record(), of a StreamOperation whose backward adds the gradient of the stream to that of the
// branch, in the place of autograd. The stream has the input's values.
Branched record_branch(std::unique_ptr<Operation> operation, const Tensor& input,
                       std::initializer_list<const ShardedParameter*> parameters);

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
