#include "axonn/layers/embedding.hpp"

#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

#include "axonn/core/error.hpp"
#include "layers/operation.hpp"

namespace axonn {
namespace {

// Ids have no gradient, so the only differentiable input is the table's shard (see record()).
class EmbeddingOperation : public Operation {
 public:
  EmbeddingOperation(Context& context, ShardedParameter weight, const EmbeddingOptions& options)
      : context_(context), weight_(std::move(weight)), options_(options) {
    const auto held = weight_.spec().dims[0].local_ranges(context.shape(), context.at());
    if (!held.empty()) rows_ = held[0].global;
  }

  std::string name() const override { return "embedding " + weight_.name(); }

  Tensor forward(const Tensor& ids) override {
    auto weight = weight_.gathered();  // (vocabulary/x, features/y)
    if (context_.shape()[options_.vocabulary_axis] == 1) {
      ids_ = ids;
      return at::embedding(*weight, ids);
    }
    elsewhere_ = ids.lt(rows_.begin).logical_or_(ids.ge(rows_.end)).unsqueeze_(-1);
    ids_ = (ids - rows_.begin).clamp_(0, weight->size(0) - 1);
    Tensor output = at::embedding(*weight, ids_).masked_fill_(elsewhere_, 0);
    return context_.scheduler().all_reduce(std::move(output), options_.vocabulary_axis, weight_.name()).wait();
  }

  Tensor backward(const Tensor& grad_output /* (..., features/y) */, bool) override {
    const Tensor grad = elsewhere_.defined() ? grad_output.masked_fill(elsewhere_, 0) : grad_output;
    weight_.reduce([&](const Tensor& block, bool add) {
      if (block.is_cuda()) {  // index_add_ adds in no fixed order there
        const Tensor sum =
            at::embedding_dense_backward(grad, ids_, block.size(0), /*padding_idx=*/-1, /*scale_grad_by_freq=*/false);
        add ? block.add_(sum) : block.copy_(sum);
        return;
      }
      if (!add) block.zero_();
      block.index_add_(0, ids_.flatten(), rows_of(grad).to(block.scalar_type()));
    });
    return {};
  }

 private:
  Context& context_;
  ShardedParameter weight_;
  EmbeddingOptions options_;
  Range rows_;        // vocabulary rows of this rank
  Tensor ids_;        // relative to rows_.begin
  Tensor elsewhere_;  // mask of the ids that other ranks hold
};

class PositionsOperation : public Operation {
 public:
  explicit PositionsOperation(ShardedParameter weight) : weight_(std::move(weight)) {}
  std::string name() const override { return "positions " + weight_.name(); }

  Tensor forward(const Tensor& input) override { return input + weight_.gathered()->narrow(0, 0, input.size(1)); }

  Tensor backward(const Tensor& grad_output, bool) override {
    weight_.reduce([&](const Tensor& block, bool add) {
      if (!add) block.zero_();
      block.narrow(0, 0, grad_output.size(1)).add_(grad_output.sum(0, /*keepdim=*/false, block.scalar_type()));
    });
    return grad_output;
  }

 private:
  ShardedParameter weight_;
};

}  // namespace

EmbeddingImpl::EmbeddingImpl(Context& context, EmbeddingOptions options)
    : ShardedModule(context),
      options_(options),
      weight_(register_sharded("weight", {.spec = {.dims = {Dim::padded(options.vocabulary, options.vocabulary_axis),
                                                            Dim::split(options.features, options.feature_axis)},
                                                   .over_z = true},
                                          .initial = options.initial})) {
  AXONN_CHECK(options.vocabulary > 0 && options.features > 0, "layers.embedding",
              "vocabulary and features must be positive, got ", options.vocabulary, " and ", options.features);
}

Value EmbeddingImpl::forward(const Tensor& ids) {
  AXONN_CHECK(ids.scalar_type() == at::kLong, "layers.embedding", "ids must be int64, got ",
              c10::toString(ids.scalar_type()));
  if (ids.device().is_cpu() && ids.numel() > 0)
    AXONN_CHECK(ids.min().item<int64_t>() >= 0 && ids.max().item<int64_t>() < options_.vocabulary, "layers.embedding",
                "ids must be in [0, ", options_.vocabulary, "), got ", ids.min().item<int64_t>(), " .. ",
                ids.max().item<int64_t>());
  return {record(std::make_unique<EmbeddingOperation>(context(), weight_, options_), ids, {&weight_}),
          options_.features, Layout::over(options_.feature_axis)};
}

PositionsImpl::PositionsImpl(Context& context, PositionsOptions options)
    : ShardedModule(context),
      options_(options),
      weight_(register_sharded(
          "weight", {.spec = {.dims = {Dim::whole(options.length), Dim::split(options.features, options.feature_axis)},
                              .over_z = true},
                     .initial = options.initial})) {}

Value PositionsImpl::forward(const Value& input) {
  check_layout(input, options_.features, Layout::over(options_.feature_axis), "layers.positions");
  AXONN_CHECK(input.tensor.dim() == 3 && input.tensor.size(1) <= options_.length, "layers.positions",
              "needs (batch, sequence <= ", options_.length, ", features), got sizes ", input.tensor.sizes());
  return {record(std::make_unique<PositionsOperation>(weight_), input.tensor, {&weight_}), input.features,
          input.layout};
}

}  // namespace axonn
