#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "axonn/layers/parameter.hpp"

namespace axonn {

// One differentiable step of a sharded layer, on this rank's part of its tensors: forward and
// backward are members of one object, which is made for one call and which autograd keeps until
// backward has run. Inside them autograd is off. It holds its parameters by value, and the context
// by a ContextHandle, because it can outlive both. Gradients of parameters go to the scheduler
// inside backward(), never through autograd.
//
// Both may call collectives (Context::scheduler()): then the ranks of these groups record the same
// operations in the same order.
class Operation {
 public:
  virtual ~Operation() = default;
  virtual std::string name() const = 0;  // for traces: "linear h.0.mlp.fc.weight"
  // Returns a new tensor: neither `input` nor a view of it. Writes to no input: others may have
  // kept it for their backward.
  virtual at::Tensor forward(const at::Tensor& input) = 0;
  // Returns the gradient of `input`, of the same sizes; undefined only if not `input_needed`. Calls
  // ShardedParameter::reduce() once for each parameter of record(), also if no input needs a
  // gradient; else Step::finish() is a UserError. A parameter that ranks along X or Y hold alike
  // gets the same gradient on all of them: the scheduler sums it over Z and data only.
  virtual at::Tensor backward(const at::Tensor& grad_output, bool input_needed) = 0;
  virtual void release() {}  // drop what forward saved
};

// Runs forward. If autograd is on and `input` or a parameter needs a gradient, it also records the
// step and counts a use of every parameter that is not frozen. Because of these, backward runs even
// if the input needs no gradient. UserError for such a parameter outside of a step.
at::Tensor record(std::unique_ptr<Operation> operation, const at::Tensor& input,
                  std::span<const ShardedParameter* const> parameters);
inline at::Tensor record(std::unique_ptr<Operation> operation, const at::Tensor& input,
                         std::initializer_list<const ShardedParameter*> parameters = {}) {
  return record(std::move(operation), input, std::span(parameters.begin(), parameters.size()));
}

// An input kept for backward. get() throws torch's own error if the tensor was overwritten in
// place. Gathered weights are not kept: backward gathers them again.
class Saved {
 public:
  void keep(const at::Tensor& tensor) { variable_ = torch::autograd::SavedVariable(tensor, /*is_output=*/false); }
  at::Tensor get() const { return variable_.unpack(); }
  void reset() { variable_.reset_data(); }

 private:
  torch::autograd::SavedVariable variable_;
};

}  // namespace axonn
