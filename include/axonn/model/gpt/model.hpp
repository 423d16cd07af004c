#pragma once

#include <memory>
#include <string>
#include <vector>

#include "axonn/model/gpt/parallelize.hpp"

namespace axonn {

// One pre-norm block on the residual stream (batch, sequence, hidden/y).
class GptBlock : public torch::nn::Module {
 public:
  GptBlock(Context& context, const GptPlan& plan, const GptConfig& config, const std::string& name);
  Value forward(const Value& stream);

 private:
  ContextHandle context_;
  AttentionOptions attention_;
  double dropout_;
  std::string name_;
  LayerNorm norm_1_, norm_2_;
  Linear qkv_, attention_out_, mlp_up_, mlp_down_;
};

// GPT on the grid of `context`. Parameter names are GPT-2's: wte, wpe, h.N.ln_1, h.N.attn.qkv,
// h.N.attn.proj, h.N.ln_2, h.N.mlp.fc, h.N.mlp.proj, ln_f, head (absent when tied). Materialize it
// before the first forward. Every rank of the grid calls forward with the rows of its (z, data).
class Gpt : public torch::nn::Module {
 public:
  Gpt(Context& context, const GptConfig& config);

  // ids (batch, sequence) int64 -> logits (batch, sequence, vocabulary/x), with the vocabulary
  // padded to a multiple of x.
  Value forward(const at::Tensor& ids);
  // Sum of the cross entropy over this rank's rows; targets (batch, sequence). A kIgnoredTarget
  // contributes nothing.
  at::Tensor loss_sum(const at::Tensor& ids, const at::Tensor& targets);
  const GptConfig& config() const { return config_; }

 private:
  ContextHandle context_;
  GptConfig config_;
  Embedding tokens_;
  Positions positions_;
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  LayerNorm norm_;
  Linear head_;
};

}  // namespace axonn
