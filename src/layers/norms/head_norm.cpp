#include "axonn/layers/norms/head_norm.hpp"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>

#include "axonn/core/error.hpp"
#include "layers/norms/rms_norm_rows.hpp"
#include "layers/operation.hpp"

namespace axonn {
namespace {

// Heads of this rank, and their norm.
struct Part {
  int64_t first, heads;
  ShardedParameter weight;
  double epsilon;
  Tensor roots = {};  // 1 / sqrt(mean of squares + epsilon) of each head

  Tensor of(const Tensor& by_head /* (rows, heads, d) */) const { return by_head.narrow(1, first, heads).contiguous(); }
};

class HeadNorms : public Operation {
 public:
  HeadNorms(Context& context, Axis axis, int64_t features, std::vector<Part> parts)
      : context_(context), axis_(axis), features_(features), parts_(std::move(parts)) {}
  std::string name() const override { return "head_norms " + parts_[0].weight.name(); }

  Tensor forward(const Tensor& input) override {
    input_.keep(input);
    const Tensor from = by_head(input), to = from.clone(at::MemoryFormat::Contiguous);
    for (Part& part : parts_) {
      const Tensor some = part.of(from);
      auto [output, roots] = rms_norm(some, *part.weight.gathered(), part.epsilon);
      part.roots = std::move(roots);
      to.narrow(1, part.first, part.heads).copy_(output);
    }
    return to.view(input.sizes());
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    const Tensor input = by_head(input_.get()), grad = by_head(grad_output),
                 result = grad.clone(at::MemoryFormat::Contiguous);
    for (const Part& part : parts_) {
      const Tensor some = part.of(input), some_grad = part.of(grad), weight = *part.weight.gathered();
      auto [rows, weights] = rms_gradient_sums(some_grad, some, part.roots, weight);
      Pending sum = context_->scheduler().all_reduce(weights.sum(0, /*keepdim=*/true), axis_, "head_norms backward");
      result.narrow(1, part.first, part.heads)
          .copy_(rms_gradient(some_grad, some, part.roots, weight, rows.div_(static_cast<double>(features_))));
      part.weight.reduce([total = sum.wait()](const Tensor& block, bool add) { put_sum(block, total, add); });
    }
    return result.view(grad_output.sizes());
  }

  void release() override { input_.reset(); }

 private:
  Tensor by_head(const Tensor& features) const {
    return features.reshape({features.numel() / features.size(-1), features.size(-1) / features_, features_});
  }

  ContextHandle context_;
  Axis axis_;
  int64_t features_;  // features of a head
  std::vector<Part> parts_;
  Saved input_;
};

}  // namespace

HeadNormImpl::HeadNormImpl(Context& context, HeadNormOptions options)
    : ShardedModule(context),
      options_(options),
      weight_(register_sharded(
          "weight", {.spec = {.dims = {Dim::whole(options.features)}}, .initial = Initial::ones(), .decay = false})) {}

Value norm_heads(Context& context, const Value& qkv, const HeadNorm& queries, const HeadNorm& keys,
                 const AttentionOptions& options) {
  const int64_t d = queries->options().features, size = context.shape()[options.axis];
  AXONN_CHECK(keys->options().features == d, "layers.head_norm", "queries and keys must have heads of one size, got ",
              d, " and ", keys->options().features, " features");
  AXONN_CHECK(options.heads % size == 0 && options.keys() % size == 0, "layers.head_norm",
              "heads and kv_heads must divide by axis ", to_string(options.axis), ", got ", options.heads, " and ",
              options.keys(), " heads and ", to_string(options.axis), " = ", size);
  const int64_t q = options.heads * d, k = options.keys() * d;
  check_layout(qkv, q + 2 * k, Layout::over(options.axis, {q, k, k}), "layers.head_norm");
  if (qkv.tensor.numel() == 0) return qkv;
  const int64_t here = options.heads / size;
  auto operation = std::make_unique<HeadNorms>(
      context, options.axis, d,
      std::vector<Part>{{0, here, queries->weight(), queries->options().epsilon},
                        {here, options.keys() / size, keys->weight(), keys->options().epsilon}});
  return {record(std::move(operation), qkv.tensor, {&queries->weight(), &keys->weight()}), qkv.features, qkv.layout};
}

}  // namespace axonn
