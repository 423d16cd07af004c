#include "axonn/layers/blocks/self_attention.hpp"

#include <utility>

#include "axonn/layers/context.hpp"

namespace axonn {

SelfAttentionImpl::SelfAttentionImpl(Context& context, SelfAttentionOptions options)
    : BranchImpl(context),
      attention_(std::move(options.attention)),
      qkv_(context, std::move(options.qkv)),
      out_(context, std::move(options.out)) {
  register_module(options.qkv_name, qkv_.ptr());
  register_module(options.out_name, out_.ptr());
}

Value SelfAttentionImpl::attended(const Value& qkv) const {
  AttentionOptions options = attention_;
  if (!is_training()) options.dropout = 0;
  const Value result = attention(context(), split_heads(context(), qkv, options), options);
  std::vector<int64_t> sizes = qkv.tensor.sizes().vec();
  sizes.back() = -1;
  return result.map([&](const at::Tensor& tensor) { return tensor.view(sizes); });
}

BranchImpl::Rest SelfAttentionImpl::begin(const Value& normalised, const AddTo& add) {
  return [this, add, qkv = qkv_->launch(normalised)]() mutable { return out_->launch(attended(qkv.wait()), add); };
}

}  // namespace axonn
