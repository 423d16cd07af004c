#include "axonn/layers/activation_checkpoint.hpp"

#include <algorithm>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "layers/operation.hpp"
#include "kernels/gpu/placed.hpp"

namespace axonn {
namespace {

constexpr const char* kName = "axonn::activation_checkpoint";

class CheckpointNode : public torch::autograd::Node {
 public:
  CheckpointNode(Context& context, CheckpointedBlock block, const std::vector<Value>& inputs, bool offload)
      : context_(context), block_(std::move(block)), samples_(context.samples()) {
    for (const Value& input : inputs) {
      Kept& kept = kept_.emplace_back();
      kept.tensor.keep(offload ? on_host(input.tensor) : input.tensor);
      kept.device = input.tensor.device();
      kept.features = input.features;
      kept.layout = input.layout;
      add_next_edge(torch::autograd::impl::gradient_edge(input.tensor));
    }
  }

  std::string name() const override { return kName; }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const WithSamples then(context_, samples_);
    std::vector<Value> inputs;
    for (size_t i = 0; i < kept_.size(); ++i)
      inputs.push_back(
          {placed(kept_[i].tensor.get().detach(), kept_[i].device).requires_grad_(task_should_compute_output(i)),
           kept_[i].features, kept_[i].layout});
    Tensor output;
    {
      const Scheduler::InPhase recompute(context_->scheduler(), Phase::recompute);
      const at::AutoGradMode enabled(true);
      output = block_(inputs).tensor;
    }
    torch::autograd::backward({output}, {gradients[0]});
    torch::autograd::variable_list result;
    for (const Value& input : inputs) result.push_back(input.tensor.grad());
    return result;
  }

  void release_variables() override {
    for (Kept& kept : kept_) kept.tensor.reset();
  }

 private:
  struct Kept {
    Saved tensor;
    c10::Device device = c10::kCPU;
    int64_t features = 0;
    Layout layout;
  };
  ContextHandle context_;
  CheckpointedBlock block_;
  std::optional<Context::Samples> samples_;
  std::vector<Kept> kept_;
};

}  // namespace

Value activation_checkpoint(Context& context, const CheckpointedBlock& block, const std::vector<Value>& inputs,
                            CheckpointOptions options) {
  const bool wanted = std::ranges::any_of(inputs, [](const Value& input) { return input.tensor.requires_grad(); });
  if (!at::GradMode::is_enabled() || !wanted) return block(inputs);
  auto node = std::make_shared<CheckpointNode>(context, block, inputs, options.offload);
  Value output;
  {
    at::RecordFunction traced(at::RecordScope::USER_SCOPE);
    if (traced.isActive()) traced.before(kName);
    const at::NoGradGuard no_grad;
    const Scheduler::Checkpointing counted(context.scheduler());
    output = block(inputs);
  }
  torch::autograd::set_history(output.tensor, node);
  return output;
}

}  // namespace axonn
