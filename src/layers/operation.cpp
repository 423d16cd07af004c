#include "layers/operation.hpp"

#include <utility>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

namespace axonn {
namespace {

class OperationNode : public torch::autograd::Node {
 public:
  explicit OperationNode(std::unique_ptr<Operation> operation) : operation_(std::move(operation)) {}

  std::string name() const override { return std::string("axonn::") + operation_->name(); }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    torch::autograd::variable_list result(num_outputs());
    const at::NoGradGuard no_grad;
    result[0] = operation_->backward(gradients[0], task_should_compute_output(0));
    return result;
  }

  void release_variables() override { operation_->release(); }

 private:
  std::unique_ptr<Operation> operation_;
};

}  // namespace

Tensor record(std::unique_ptr<Operation> operation, const Tensor& input, std::initializer_list<const ShardedParameter*> parameters) {
  const bool recorded = at::GradMode::is_enabled() && (input.requires_grad() || parameters.size() > 0);
  Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = operation->forward(input);
  }
  if (!recorded) return output;

  for (const ShardedParameter* parameter : parameters) parameter->count_use();
  auto node = std::make_shared<OperationNode>(std::move(operation));
  node->add_next_edge(torch::autograd::impl::gradient_edge(input));
  for (const ShardedParameter* parameter : parameters) node->add_next_edge(torch::autograd::impl::gradient_edge(parameter->shard()));
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace axonn
