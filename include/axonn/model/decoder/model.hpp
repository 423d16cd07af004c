#pragma once

#include <memory>
#include <string>
#include <vector>

#include "axonn/model/decoder/parallelize.hpp"

namespace axonn {

// One pre-norm block on the residual stream (batch, sequence, hidden/y).
class DecoderBlock : public torch::nn::Module {
 public:
  DecoderBlock(Context& context, const DecoderPlan& plan, const DecoderConfig& config, const std::string& name);
  Value forward(const Value& stream);

 private:
  ContextHandle context_;
  double dropout_;
  std::string name_;
  std::shared_ptr<NormImpl> norm_1_;
  SelfAttention attention_;
  std::shared_ptr<NormImpl> norm_2_;
  Mlp mlp_;
};

// A decoder on the grid of `context`. Parameter names are GPT-2's: wte, wpe, h.N.ln_1,
// h.N.attn.qkv, h.N.attn.proj, h.N.ln_2, h.N.mlp.fc, h.N.mlp.proj, ln_f, head (absent when tied).
// Materialize it before the first forward. Every rank of the grid calls forward with the rows of
// its (z, data).
class Decoder : public torch::nn::Module {
 public:
  Decoder(Context& context, const DecoderConfig& config);

  // ids (batch, sequence) int64 -> logits (batch, sequence, vocabulary/x), with the vocabulary
  // padded to a multiple of x.
  Value forward(const at::Tensor& ids);
  // Sum of the cross entropy over this rank's rows; targets (batch, sequence). A kIgnoredTarget
  // contributes nothing.
  at::Tensor loss_sum(const at::Tensor& ids, const at::Tensor& targets);
  const DecoderConfig& config() const { return config_; }

 private:
  ContextHandle context_;
  DecoderConfig config_;
  Embedding tokens_;
  Positions positions_;
  std::vector<std::shared_ptr<DecoderBlock>> blocks_;
  std::shared_ptr<NormImpl> norm_;
  Linear head_;
};

}  // namespace axonn
