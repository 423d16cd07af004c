#include "axonn/layers/activation_checkpoint.hpp"

#include <torch/csrc/autograd/autograd.h>

#include "layers/operation.hpp"

namespace axonn {
namespace {

class CheckpointOperation : public Operation {
 public:
  CheckpointOperation(Context& context, std::function<Value(const Value&)> block, const Value& input, CheckpointOptions options)
      : context_(context),
        block_(std::move(block)),
        features_(input.features),
        layout_(input.layout),
        options_(options),
        samples_(context.samples()) {}

  std::string name() const override { return "activation_checkpoint"; }
  const Value& output() const { return output_; }

  Tensor forward(const Tensor& input) override {
    offloaded_from_ = input.device();
    input_.keep(options_.offload ? input.to(at::kCPU) : input);
    const Scheduler::Checkpointing counted(context_.scheduler());
    output_ = block_({input, features_, layout_});
    return std::exchange(output_.tensor, {});
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    const WithSamples then(context_, samples_);
    const Tensor input = input_.get().detach().to(offloaded_from_).requires_grad_(true);
    Tensor output;
    {
      const Scheduler::InPhase recompute(context_.scheduler(), Phase::recompute);
      const at::AutoGradMode enabled(true);
      output = block_({input, features_, layout_}).tensor;
    }
    torch::autograd::backward({output}, {grad_output});
    return input.grad();
  }

  void release() override { input_.reset(); }

 private:
  Context& context_;
  std::function<Value(const Value&)> block_;
  int64_t features_;
  Layout layout_;
  CheckpointOptions options_;
  Context::Samples samples_;
  c10::Device offloaded_from_ = c10::kCPU;
  Saved input_;
  Value output_;  // features and layout alone
};

}  // namespace

Value activation_checkpoint(Context& context, const std::function<Value(const Value&)>& block, const Value& input,
                            CheckpointOptions options) {
  if (!at::GradMode::is_enabled() || !input.tensor.requires_grad()) return block(input);
  auto operation = std::make_unique<CheckpointOperation>(context, block, input, options);
  const CheckpointOperation& kept = *operation;  // autograd holds it
  const Tensor output = record(std::move(operation), input.tensor);
  return {output, kept.output().features, kept.output().layout};
}

}  // namespace axonn
