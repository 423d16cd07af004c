#include "layers/ops/attention/heads_attention.hpp"

#include <utility>

#include "axonn/core/error.hpp"
#include "layers/ops/attention/heads_operation.hpp"

namespace axonn {
namespace {

// How often a tensor and its views were changed in place; unknown in inference mode.
uint32_t changes_of(const Tensor& tensor) {
  const c10::VariableVersion& counter = torch::autograd::impl::version_counter(tensor);
  return counter.enabled() ? counter.current_version() : 0;
}

}  // namespace

HeadsAttention::HeadsAttention(Context& context, AttentionTerms terms, int64_t sequence)
    : context_(context), terms_(std::move(terms)), sequence_(sequence), samples_(context.samples()) {}

std::vector<Tensor> HeadsAttention::forward(const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].keep(inputs[i]);
  result_ = attend({inputs[0], inputs[1], inputs[2]});
  const Tensor output = result_.output.flatten(2);
  // The output that is kept counts the changes of the one that is handed over.
  torch::autograd::impl::set_version_counter(result_.output, torch::autograd::impl::version_counter(output));
  version_ = changes_of(result_.output);
  return {output};
}

std::vector<Tensor> HeadsAttention::backward(const std::vector<Tensor>& gradients) {
  AXONN_CHECK(changes_of(result_.output) == version_, "layers.attention",
              "the output of attention was changed in place, and backward needs it as it was: change a copy of it");
  const WithSamples then(context_, samples_);
  const Heads heads = {inputs_[0].get(), inputs_[1].get(), inputs_[2].get()};
  const Gradients found = attend_backward(heads, result_, gradients[0].reshape(heads[0].sizes()));
  std::vector<Tensor> all = gradients_like(heads);
  all[0].copy_(found.queries);
  for (const int64_t i : {0, 1}) all[static_cast<size_t>(1 + i)].copy_(found.keys_values[i].transpose(1, 2));
  return all;
}

void HeadsAttention::release() {
  for (Saved& input : inputs_) input.reset();
  result_ = {};
  terms_.documents.reset();
}

}  // namespace axonn
