#include "layers/ops/tiled_attention.hpp"

#include <array>
#include <optional>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "axonn/layers/context_handle.hpp"
#include "kernels/cpu/attention_tiles.hpp"
#include "layers/ops/heads_operation.hpp"

namespace axonn {
namespace {

class TiledAttention : public TensorOperation {
 public:
  TiledAttention(Context& context, AttentionTerms terms, int64_t first, int64_t sequence)
      : context_(context), terms_(std::move(terms)), first_(first), sequence_(sequence), samples_(context.samples()) {}
  std::string name() const override { return "tiled_attention"; }

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) override {
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].keep(inputs[i]);
    const auto attention = attention_of(inputs[0], inputs[1]);
    attention->begin();
    attention->attend(tokens_of(inputs[0], first_), tokens_of(inputs[1], 0), both_of(inputs[1], inputs[2]));
    result_ = attention->end();
    return {result_.output.flatten(2)};
  }

  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    const WithSamples then(context_, samples_);
    const std::array<Tensor, 3> heads = {inputs_[0].get(), inputs_[1].get(), inputs_[2].get()};
    const auto attention = attention_of(heads[0], heads[1]);
    attention->begin_backward(result_, gradients[0].reshape(heads[0].sizes()));
    const Tensor both = both_of(heads[1], heads[2]), sums = at::zeros(both.sizes(), both.options());
    attention->attend_backward(tokens_of(heads[0], first_), tokens_of(heads[1], 0), both, sums);
    std::vector<Tensor> all = gradients_like(heads);
    all[0].copy_(attention->grad_queries());
    for (const int64_t i : {0, 1}) all[static_cast<size_t>(1 + i)].copy_(sums[i].transpose(1, 2));
    return all;
  }

  void release() override {
    for (Saved& input : inputs_) input.reset();
    result_ = {};
  }

 private:
  std::unique_ptr<AttentionByBlocks> attention_of(const Tensor& queries, const Tensor& keys) const {
    return attention_tiles(queries, keys.size(2), attention_rules(context_, terms_, sequence_));
  }
  static std::vector<TokenRun> tokens_of(const Tensor& some, int64_t place) { return {{{0, some.size(1)}, place}}; }
  static Tensor both_of(const Tensor& keys, const Tensor& values) {
    const Tensor both = at::empty(sizes_of_both(keys), keys.options().dtype(wide_type(keys)));
    put_both(both, keys, values);
    return both;
  }

  ContextHandle context_;
  AttentionTerms terms_;
  int64_t first_, sequence_;
  std::optional<Context::Samples> samples_;
  std::array<Saved, 3> inputs_;  // queries, keys, values
  AttentionByBlocks::Result result_;
};

}  // namespace

std::unique_ptr<TensorOperation> tiled_attention(Context& context, AttentionTerms terms, int64_t first,
                                                 int64_t sequence) {
  return std::make_unique<TiledAttention>(context, std::move(terms), first, sequence);
}

}  // namespace axonn
