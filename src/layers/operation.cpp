#include "layers/operation.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

namespace axonn {
namespace {

// Inside an operation nothing is recorded: LibTorch's calls go straight to their kernels, past
// autograd and its tracking of views.
struct Below {
  at::NoGradGuard no_grad;
  at::AutoDispatchBelowADInplaceOrView kernels_alone;
};

using ParameterList = std::span<const ShardedParameter* const>;

std::string traced_name(const Operation& operation) { return "axonn::" + operation.name(); }

class OperationNode : public torch::autograd::Node {
 public:
  // `scheduler` is null when the operation has no parameters, because it then needs no weights.
  // Edge `second` is that of the second input.
  OperationNode(std::unique_ptr<Operation> operation, std::shared_ptr<Scheduler> scheduler,
                std::optional<size_t> second)
      : operation_(std::move(operation)),
        stream_(dynamic_cast<StreamOperation*>(operation_.get())),
        scheduler_(std::move(scheduler)),
        second_(second) {}

  std::string name() const override { return traced_name(*operation_); }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    torch::autograd::variable_list result(num_outputs());
    const Below below;
    std::optional<Scheduler::InPhase> backward;
    if (scheduler_ != nullptr) backward.emplace(*scheduler_, Phase::backward);
    if (stream_ != nullptr && gradients.size() > 1) stream_->take_stream_gradient(gradients[1]);
    result[0] = operation_->backward(gradients[0], task_should_compute_output(0));
    if (second_) result[*second_] = stream_ != nullptr ? stream_->second_gradient(gradients[0]) : gradients[0];
    return result;
  }

  void release_variables() override { operation_->release(); }

 private:
  std::unique_ptr<Operation> operation_;
  StreamOperation* stream_;  // the same, if it is one
  std::shared_ptr<Scheduler> scheduler_;
  std::optional<size_t> second_;
};

class TensorNode : public torch::autograd::Node {
 public:
  explicit TensorNode(std::unique_ptr<TensorOperation> operation) : operation_(std::move(operation)) {}

  std::string name() const override { return "axonn::" + operation_->name(); }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const Below below;
    for (size_t i = 0; i < gradients.size(); ++i)
      if (!gradients[i].defined()) gradients[i] = input_metadata(i).zeros_like();
    return operation_->backward(gradients);
  }

  void release_variables() override { operation_->release(); }

 private:
  std::unique_ptr<TensorOperation> operation_;
};

// Without autograd the node is null, and `output` is not recorded yet.
struct Ran {
  Tensor output;
  std::shared_ptr<OperationNode> node;
};

Ran run(std::unique_ptr<Operation> operation, const Tensor& input, ParameterList parameters,
        const SecondInput& second) {
  const bool has_second = second.tensor.defined();
  const bool trains = std::ranges::any_of(parameters, [](const auto* parameter) { return parameter->trained(); });
  const bool recorded =
      at::GradMode::is_enabled() && (input.requires_grad() || trains || (has_second && second.tensor.requires_grad()));
  const std::shared_ptr<Scheduler> scheduler = parameters.empty() ? nullptr : parameters.front()->kept_scheduler();
  Tensor output;
  {
    at::RecordFunction traced(at::RecordScope::USER_SCOPE);
    if (traced.isActive()) traced.before(traced_name(*operation));
    const Below below;
    output = operation->forward(input);
  }
  if (recorded || (scheduler != nullptr && scheduler->checkpointing()))
    for (const ShardedParameter* parameter : parameters) parameter->count_use();
  if (!recorded) return {output, nullptr};

  auto node = std::make_shared<OperationNode>(std::move(operation), scheduler,
                                              has_second ? std::optional(1 + parameters.size()) : std::nullopt);
  node->add_next_edge(torch::autograd::impl::gradient_edge(input));
  for (const ShardedParameter* parameter : parameters)
    node->add_next_edge(torch::autograd::impl::gradient_edge(parameter->shard()));
  if (has_second) node->add_next_edge(torch::autograd::impl::gradient_edge(second.tensor));
  return {output, std::move(node)};
}

}  // namespace

Tensor record(std::unique_ptr<Operation> operation, const Tensor& input, ParameterList parameters) {
  return record(std::move(operation), input, parameters, {});
}

Tensor record(std::unique_ptr<Operation> operation, const Tensor& input, ParameterList parameters,
              const SecondInput& second) {
  const Ran ran = run(std::move(operation), input, parameters, second);
  if (ran.node) torch::autograd::set_history(ran.output, ran.node);
  return ran.output;
}

std::vector<Tensor> record(std::unique_ptr<TensorOperation> operation, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  {
    at::RecordFunction traced(at::RecordScope::USER_SCOPE);
    if (traced.isActive()) traced.before("axonn::" + operation->name());
    const Below below;
    outputs = operation->forward(inputs);
  }
  const bool needed = std::ranges::any_of(inputs, [](const Tensor& input) { return input.requires_grad(); });
  if (!at::GradMode::is_enabled() || !needed) return outputs;
  const auto node = std::make_shared<TensorNode>(std::move(operation));
  for (const Tensor& input : inputs) node->add_next_edge(torch::autograd::impl::gradient_edge(input));
  torch::autograd::set_history(outputs, node);
  return outputs;
}

Branched record_branch(std::unique_ptr<Operation> operation, const Tensor& input,
                       std::initializer_list<const ShardedParameter*> parameters) {
  const Ran ran = run(std::move(operation), input, {parameters.begin(), parameters.size()}, {});
  if (!ran.node) return {input, ran.output};
  const Tensor stream = input.detach();
  torch::autograd::set_history({ran.output, stream}, ran.node);
  return {stream, ran.output};
}

}  // namespace axonn
