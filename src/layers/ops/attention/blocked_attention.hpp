#pragma once

#include <memory>

#include "kernels/attention_by_blocks.hpp"

namespace axonn {

// AttentionByBlocks by LibTorch's operations, on any device, in blocks of at most 256 queries and
// 512 keys.
class BlockedAttention : public AttentionByBlocks {
 public:
  BlockedAttention(const at::Tensor& queries, int64_t key_heads, AttentionRules rules);

  void begin() override;
  void attend(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys, const KeysValues& seen) override;
  Result end() override;

  void begin_backward(const Result& result, const at::Tensor& grad_output) override;
  void attend_backward(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys, const KeysValues& seen,
                       const KeysValues& to) override;
  at::Tensor grad_queries() const override { return grad_queries_.transpose(1, 2); }

 private:
  void attend(const AttentionBlock& block, const KeysValues& seen);
  void attend_backward(const AttentionBlock& block, const KeysValues& seen, const KeysValues& to);
  at::Tensor rows_of(const at::Tensor& by_head, const AttentionBlock& block) const;
  at::Tensor scores_of(const at::Tensor& queries, const at::Tensor& keys, const AttentionBlock& block) const;
  // The values of a rule for all scores of a block.
  at::Tensor of_block(const AttentionRules::OfPart& rule, const AttentionBlock& block, const at::Tensor& like) const;
  // (batch, heads, r, n) as (batch, kv, heads / kv * r, n), and back.
  at::Tensor grouped(const at::Tensor& by_head) const;
  at::Tensor ungrouped(const at::Tensor& by_key_head) const;

  int64_t heads_, key_heads_;
  at::ScalarType type_;
  double scale_;
  AttentionRules rules_;
  at::Tensor queries_;                     // (batch, heads, q, f)
  at::Tensor greatest_, sums_, output_;    // so far: (batch, heads, q, 1 or f)
  at::Tensor grad_output_, grad_queries_;  // (batch, heads, q, f)
  at::Tensor logarithms_, dots_;           // (batch, heads, q, 1): of sums; of outputs with their gradients
};

// The fastest one where the queries are: attention_tiles() on a CPU; on a GPU FlashAttention for
// what it takes, else BlockedAttention.
std::unique_ptr<AttentionByBlocks> attention_by_blocks(const at::Tensor& queries, int64_t key_heads,
                                                       AttentionRules rules);

}  // namespace axonn
