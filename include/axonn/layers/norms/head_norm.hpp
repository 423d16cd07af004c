#pragma once

#include "axonn/layers/attention.hpp"
#include "axonn/layers/sharded_module.hpp"

namespace axonn {

struct HeadNormOptions {
  int64_t features = 0;  // features of a head
  double epsilon = 1e-5;
};

// The weight of norm_heads(): (features of a head), replicated over all axes.
class HeadNormImpl : public ShardedModule {
 public:
  HeadNormImpl(Context& context, HeadNormOptions options);
  const ShardedParameter& weight() const { return weight_; }
  const HeadNormOptions& options() const { return options_; }

 private:
  HeadNormOptions options_;
  ShardedParameter weight_;
};

using HeadNorm = Layer<HeadNormImpl, HeadNormOptions>;

// An RMSNorm of each head of the queries, and of each head of the keys, before split_heads(): qkv
// (batch, ..., features / axis) in segments q|k|v -> the same (Henry et al., Query-Key
// Normalization, 2020, as Qwen 3 has it). In backward the ranks of the axis exchange one number per
// feature of a head, for each weight. Every rank of the grid calls it.
Value norm_heads(Context& context, const Value& qkv, const HeadNorm& queries, const HeadNorm& keys,
                 const AttentionOptions& options);

}  // namespace axonn
