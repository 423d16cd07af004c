#pragma once

#include <string>

#include "axonn/layers/attention.hpp"
#include "axonn/layers/blocks/residual_stream.hpp"
#include "axonn/layers/linear.hpp"

namespace axonn {

struct SelfAttentionOptions {
  LinearOptions qkv;           // segments q|k|v
  AttentionOptions attention;  // over the output axis of qkv
  LinearOptions out;
  std::string qkv_name = "qkv", out_name = "proj";  // names of the two submodules
};

// Self-attention as a residual branch: out(attention(qkv(x))) of (batch, ..., features). All dims
// between are one sequence, such as the pixels of an image. Attention's dropout is for training
// only (train(), eval()).
class SelfAttentionImpl : public BranchImpl {
 public:
  SelfAttentionImpl(Context& context, SelfAttentionOptions options);
  Rest begin(const Value& normalised, const AddTo& add) override;
  std::string place() const override { return ".attn"; }
  Linear& qkv() { return qkv_; }
  Linear& out() { return out_; }

 private:
  Value attended(const Value& qkv) const;

  AttentionOptions attention_;
  Linear qkv_, out_;
};

using SelfAttention = Layer<SelfAttentionImpl, SelfAttentionOptions>;

}  // namespace axonn
