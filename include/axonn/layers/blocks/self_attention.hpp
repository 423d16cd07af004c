#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "axonn/layers/attention.hpp"
#include "axonn/layers/blocks/residual_stream.hpp"
#include "axonn/layers/blocks/key_value_cache.hpp"
#include "axonn/layers/linear.hpp"
#include "axonn/layers/norms/head_norm.hpp"

namespace axonn {

struct SelfAttentionOptions {
  LinearOptions qkv;           // segments q|k|v
  AttentionOptions attention;  // over the output axis of qkv
  LinearOptions out;
  std::optional<HeadNormOptions> head_norm = {};    // norms of queries and keys; nothing: none
  std::string qkv_name = "qkv", out_name = "proj";  // names of the two submodules
};

// Self-attention as a residual branch: out(attention(qkv(x))) of (batch, ..., features). All dims
// between are one sequence, such as the pixels of an image. Attention's dropout is for training
// only (train(), eval()). Norms of the heads are submodules q_norm and k_norm, and come before the
// rotation.
class SelfAttentionImpl : public BranchImpl {
 public:
  SelfAttentionImpl(Context& context, SelfAttentionOptions options);
  Rest begin(const Value& normalised, const AddTo& add) override;
  std::string place() const override { return ".attn"; }
  Linear& qkv() { return qkv_; }
  Linear& out() { return out_; }

  // Whether forward needs all rows at once, be it for Decoding or for a mask.
  bool needs_all_rows() const { return cache_ != nullptr || documents_.defined(); }
  // While it lives, forward takes new tokens of texts whose earlier ones are in `cache`, from
  // positions `begins` on; without gradients. All of them outlive it.
  class Decoding {
   public:
    Decoding(SelfAttentionImpl& layer, KeyValueCache& cache, const std::vector<int64_t>& begins) : layer_(layer) {
      layer_.cache_ = &cache;
      layer_.begins_ = &begins;
    }
    ~Decoding() {
      layer_.cache_ = nullptr;
      layer_.begins_ = nullptr;
    }
    Decoding(const Decoding&) = delete;
    Decoding& operator=(const Decoding&) = delete;

   private:
    SelfAttentionImpl& layer_;
  };
  // While it lives, forward attends within documents: document_mask(), or an undefined tensor for
  // none.
  class WithinDocuments {
   public:
    WithinDocuments(SelfAttentionImpl& layer, at::Tensor mask) : layer_(layer) { layer_.documents_ = std::move(mask); }
    ~WithinDocuments() { layer_.documents_ = at::Tensor(); }
    WithinDocuments(const WithinDocuments&) = delete;
    WithinDocuments& operator=(const WithinDocuments&) = delete;

   private:
    SelfAttentionImpl& layer_;
  };

 private:
  Value attended(const Value& qkv) const;

  AttentionOptions attention_;
  KeyValueCache* cache_ = nullptr;
  const std::vector<int64_t>* begins_ = nullptr;
  at::Tensor documents_;
  Linear qkv_, out_;
  std::optional<HeadNorm> q_norm_, k_norm_;
};

using SelfAttention = Layer<SelfAttentionImpl, SelfAttentionOptions>;

}  // namespace axonn
