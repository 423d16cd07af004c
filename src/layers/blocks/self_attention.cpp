#include "axonn/layers/blocks/self_attention.hpp"

#include <utility>

#include "axonn/layers/context.hpp"

namespace axonn {
namespace {

const std::vector<int64_t> kFromZero;

}  // namespace

SelfAttentionImpl::SelfAttentionImpl(Context& context, SelfAttentionOptions options)
    : BranchImpl(context),
      attention_(std::move(options.attention)),
      qkv_(context, std::move(options.qkv)),
      out_(context, std::move(options.out)) {
  register_module(options.qkv_name, qkv_.ptr());
  register_module(options.out_name, out_.ptr());
  if (!options.head_norm) return;
  q_norm_.emplace(context, *options.head_norm);
  k_norm_.emplace(context, *options.head_norm);
  register_module("q_norm", q_norm_->ptr());
  register_module("k_norm", k_norm_->ptr());
}

Value SelfAttentionImpl::attended(const Value& qkv) const {
  AttentionOptions options = attention_;
  if (!is_training()) options.dropout = 0;
  options.divides_rows = cache_ == nullptr;  // a text has the same bits beside longer ones
  const Value normed = q_norm_ ? norm_heads(context(), qkv, *q_norm_, *k_norm_, options) : qkv;
  const AttentionHeads heads = split_heads(context(), normed, options, begins_ != nullptr ? *begins_ : kFromZero);
  if (cache_ != nullptr) {
    const bool begins_texts = qkv.tensor.size(1) > 1 && *begins_ == std::vector<int64_t>(begins_->size());
    if (!begins_texts)
      return {cache_->attend(heads, *begins_, options.window), out_->in_features(), Layout::over(options.axis)};
    cache_->put(heads, *begins_);
  }
  const Value result = attention(context(), heads, options, documents_);
  std::vector<int64_t> sizes = qkv.tensor.sizes().vec();
  sizes.back() = -1;
  return result.map([&](const at::Tensor& tensor) { return tensor.view(sizes); });
}

BranchImpl::Rest SelfAttentionImpl::begin(const Value& normalised, const AddTo& add) {
  return [this, add, qkv = qkv_->launch(normalised)]() mutable { return out_->launch(attended(qkv.wait()), add); };
}

}  // namespace axonn
