#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <torch/optim/optimizer.h>

#include "wrap/stored/stored_tensors.hpp"

namespace axonn {

// The state of one parameter in a torch::optim optimizer.
struct ParameterState {
  struct Field {
    const char* name;
    at::Tensor* tensor;
    bool always;  // false: only with some options of the optimizer
  };
  std::unique_ptr<torch::optim::OptimizerParamState> owner;
  std::vector<Field> fields;
  int64_t* step = nullptr;
};

// The state of an optimizer of local(), as tensors "exp_avg/conv1.weight". UserError for an
// optimizer whose kind is not known.
std::vector<StoredTensor> tensors_of(const WrappedModule& parameters, torch::optim::Optimizer& optimizer);

// A state that is read from somewhere, and then given to the optimizer.
class StateToRead {
 public:
  // The state that the optimizer always keeps, and that which it may keep and is among the names.
  // Nothing if there are no names: it had taken no step.
  StateToRead(const WrappedModule& parameters, const torch::optim::Optimizer& optimizer,
              const std::set<std::string>& names);
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // zeros, to be filled
  void give_to(torch::optim::Optimizer& optimizer);

 private:
  const WrappedModule& parameters_;
  std::vector<ParameterState> states_;  // one for each of local()
  std::vector<at::Tensor> steps_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace axonn
