#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "axonn/layers/context_handle.hpp"
#include "layers/operation.hpp"
#include "layers/ops/attention/attention_rules.hpp"

namespace axonn {

// Attention by AttentionByBlocks as an operation: queries, keys and values (batch, tokens, heads,
// features of a head) -> (batch, queries, heads of queries * features of a head). It keeps its
// inputs, the output, and a number per query and head; backward computes the scores again. With as
// many queries as keys, the three gradients lie in one tensor (heads_in_one()).
class HeadsAttention : public TensorOperation {
 public:
  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) final;
  // UserError if the output was changed in place.
  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) final;
  void release() final;

 protected:
  using Heads = std::array<Tensor, 3>;  // queries, keys, values
  struct Gradients {
    Tensor queries;      // (batch, queries, heads, features of a head)
    Tensor keys_values;  // (2, batch, kv, keys, features of a head)
  };

  HeadsAttention(Context& context, AttentionTerms terms, int64_t sequence);

  virtual AttentionByBlocks::Result attend(const Heads& heads) = 0;
  virtual Gradients attend_backward(const Heads& heads, const AttentionByBlocks::Result& result,
                                    const Tensor& grad_output /* as the queries */) = 0;

  Context& context() const { return context_; }
  int64_t sequence() const { return sequence_; }
  AttentionRules rules() const { return attention_rules(context_, terms_, sequence_); }

 private:
  ContextHandle context_;
  AttentionTerms terms_;
  int64_t sequence_;
  std::optional<Context::Samples> samples_;
  std::array<Saved, 3> inputs_;
  AttentionByBlocks::Result result_;
  uint32_t version_ = 0;  // counts changes of the output
};

}  // namespace axonn
