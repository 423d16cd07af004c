#pragma once

#include <vector>

#include "kernels/attention_by_blocks.hpp"

namespace axonn {

// AttentionByBlocks by LibTorch's flash attention: one call for the keys before some queries, and
// one for those at their own places. Only for what flash_attends().
class FlashAttention : public AttentionByBlocks {
 public:
  FlashAttention(const at::Tensor& queries, int64_t key_heads, const AttentionRules& rules);

  void begin() override;
  void attend(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys, const KeysValues& seen) override;
  Result end() override;

  void begin_backward(const Result& result, const at::Tensor& grad_output) override;
  void attend_backward(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys, const KeysValues& seen,
                       const KeysValues& to) override;
  at::Tensor grad_queries() const override { return grad_queries_.transpose(1, 2); }

 private:
  at::Tensor of_head_groups(const at::Tensor& by_key_head) const;

  int64_t key_heads_, group_;  // group: heads of queries that share one of keys
  Sight sight_;
  at::Tensor queries_, output_, logarithms_;  // so far: (batch, heads, q, f or 1)
  at::Tensor grad_output_, grad_queries_;     // (batch, heads, q, f)
};

// Whether LibTorch would take flash or cuDNN's attention for such heads: of 16 bits, on a GPU,
// without a window or rules.
bool flash_attends(const at::Tensor& queries, const AttentionRules& rules);

}  // namespace axonn
