#include "layers/ops/attention/attention_operation.hpp"

#include <array>
#include <vector>

#include "layers/ops/attention/heads_operation.hpp"

namespace axonn {
namespace {

class AttentionOperation : public TensorOperation {
 public:
  explicit AttentionOperation(const CausalAttentionOptions& options) : kernel_(options) {}
  std::string name() const override { return "causal_attention"; }

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) override {
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].keep(inputs[i]);
    auto [output, probabilities] = kernel_.forward({inputs[0], inputs[1], inputs[2]});
    probabilities_ = std::move(probabilities);
    return {output.flatten(2)};
  }

  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    const CausalAttention::Heads inputs = {inputs_[0].get(), inputs_[1].get(), inputs_[2].get()};
    std::vector<Tensor> grads = gradients_like(inputs);
    kernel_.backward(inputs, probabilities_, gradients[0].contiguous().view(inputs[0].sizes()),
                     {grads[0], grads[1], grads[2]});
    return grads;
  }

  void release() override {
    for (Saved& input : inputs_) input.reset();
    probabilities_.clear();
  }

 private:
  CausalAttention kernel_;
  std::array<Saved, 3> inputs_;  // queries, keys, values
  std::vector<Tensor> probabilities_;
};

}  // namespace

std::unique_ptr<TensorOperation> attention_operation(const CausalAttentionOptions& options) {
  return std::make_unique<AttentionOperation>(options);
}

}  // namespace axonn
