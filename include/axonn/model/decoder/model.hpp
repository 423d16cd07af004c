#pragma once

#include <memory>
#include <string>
#include <vector>

#include "axonn/model/decoder/parallelize.hpp"

namespace axonn {

// One pre-norm block on the residual stream (batch, sequence, hidden/y), of which the ranks along X
// may divide the rows (stream_layout()).
class DecoderBlock : public torch::nn::Module {
 public:
  DecoderBlock(Context& context, const DecoderPlan& plan, const DecoderConfig& config, int64_t number);
  Value forward(const Value& stream);
  SelfAttentionImpl& attention() { return *attention_; }

 private:
  ContextHandle context_;
  double dropout_;
  std::string name_;
  std::shared_ptr<NormImpl> norm_1_;
  SelfAttention attention_;
  std::shared_ptr<NormImpl> norm_2_;
  Mlp mlp_;
};

// Texts that are written token by token: keys and values of their tokens so far, on this rank.
struct DecodingState {
  std::vector<KeyValueCache> blocks;  // one for each
  std::vector<int64_t> lengths;       // tokens of each text so far
};

// A decoder of any family on the grid of `context`. Parameter names are GPT-2's: wte, wpe (absent
// when queries and keys are rotated), h.N.ln_1, h.N.attn.qkv, h.N.attn.q_norm, h.N.attn.k_norm,
// h.N.attn.proj, h.N.ln_2, h.N.mlp.fc, h.N.mlp.proj, ln_f, head (absent when tied). The rows of qkv
// are those of queries, keys and values; the rows of a gated fc those of gates and values.
// Materialize it before the first forward. Every rank of the grid calls forward with its rows
// (Context::row_share()).
//
// If ranks along Z divide sequences (ForwardSchedule::context), all of them give the same whole
// rows, and each computes with its own tokens, my_tokens(). UserError for a sequence that does not
// divide (check_sequence()), also by the constructor for that of the config.
class Decoder : public torch::nn::Module {
 public:
  Decoder(Context& context, const DecoderConfig& config);

  // ids (batch, sequence) int64 -> logits (batch, sequence, vocabulary/x), with the vocabulary
  // padded to a multiple of x. `begins` (batch, sequence) int64, if given: the place in the row
  // where the document of each token begins. Then a token sees only its document, in which
  // positions count from 0: the logits are those of the documents by themselves. The logits are
  // those of this rank's tokens, if ranks divide sequences.
  Value forward(const at::Tensor& ids, const at::Tensor& begins = {});
  // Sum of the cross entropy over this rank's rows, or its tokens of them; targets (batch,
  // sequence). A kIgnoredTarget contributes nothing.
  at::Tensor loss_sum(const at::Tensor& ids, const at::Tensor& targets, const at::Tensor& begins = {});
  const DecoderConfig& config() const { return config_; }

  // For texts of at most `length` tokens, none of which is there yet. All ranks have the same
  // texts.
  DecodingState begin_decoding(int64_t texts, int64_t length);
  // Appends tokens: ids (texts, n), of which the first counts[b] are those of text b, and the
  // others any. Returns the logits of the token that comes next in each text: (texts,
  // vocabulary/x). Without dropout and gradients, and with all rows and tokens on each rank; the
  // module is in evaluation mode. Every rank calls it.
  Value decode(const at::Tensor& ids, const std::vector<int64_t>& counts, DecodingState& state);

 private:
  Value placed(const Value& tokens, const at::Tensor& begins);
  at::Tensor mask_of(const at::Tensor& begins, const at::Tensor& like, int64_t tokens) const;
  Value logits_of(const Value& stream);

  ContextHandle context_;
  DecoderConfig config_;
  Embedding tokens_;
  Positions positions_ = nullptr;  // empty: queries and keys are rotated
  std::vector<std::shared_ptr<DecoderBlock>> blocks_;
  std::shared_ptr<NormImpl> norm_;
  Linear head_;
};

}  // namespace axonn
