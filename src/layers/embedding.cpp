#include "axonn/layers/embedding.hpp"

#include <algorithm>
#include <limits>

#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/my_tokens.hpp"
#include "layers/embedding_operation.hpp"
#include "layers/ops/stream_rows.hpp"
#include "kernels/gpu/embedding_rows.hpp"

namespace axonn {
namespace {

// Adds the gradient of each row's uses to the block, or stores it.
void sum_rows(const Tensor& grad, const Tensor& ids, const Tensor& block, bool add) {
  if (block.is_cuda()) {  // index_add_ adds in no fixed order there
    const Tensor sum =
        at::embedding_dense_backward(grad, ids, block.size(0), /*padding_idx=*/-1, /*scale_grad_by_freq=*/false);
    add ? block.add_(sum) : block.copy_(sum);
    return;
  }
  if (!add) block.zero_();
  block.index_add_(0, ids.flatten(), rows_of(grad).to(block.scalar_type()));
}

// Ids have no gradient, so the only differentiable input is the table's shard (see record()).
class EmbeddingOperation : public Operation {
 public:
  EmbeddingOperation(Context& context, ShardedParameter weight, const EmbeddingOptions& options, Layout output,
                     bool fused)
      : context_(context), weight_(std::move(weight)), options_(options), output_(std::move(output)), fused_(fused) {
    const auto held = weight_.spec().dims[0].local_ranges(context.shape(), context.at());
    if (!held.empty()) rows_ = held[0].global;
  }

  std::string name() const override { return "embedding " + weight_.name(); }

  Tensor forward(const Tensor& ids) override {
    auto weight = weight_.gathered();  // (vocabulary/x, features/y)
    if (context_->shape()[options_.vocabulary_axis] == 1) {
      ids_ = ids;
      return at::embedding(*weight, ids);
    }
    const Tensor elsewhere = ids.lt(rows_.begin).logical_or_(ids.ge(rows_.end)).unsqueeze_(-1),
                 here = (ids - rows_.begin).clamp_(0, weight->size(0) - 1);
    ids_ = fused_ ? ids : here;
    if (!fused_) elsewhere_ = elsewhere;
    const Tensor output = at::embedding(*weight, here).masked_fill_(elsewhere, 0);
    return sum_of_rows(context_, output, options_.vocabulary_axis, output_, weight_.name()).wait();
  }

  Tensor backward(const Tensor& grad_output /* (..., features/y) */, bool) override {
    const Tensor of_tokens = gradient_of_tokens(grad_output);
    if (fused_) {
      weight_.reduce([&](const Tensor& block, bool add) { sum_tokens(of_tokens.contiguous(), block, add); });
      return {};
    }
    const Tensor grad = elsewhere_.defined() ? of_tokens.masked_fill(elsewhere_, 0) : of_tokens;
    weight_.reduce([&](const Tensor& block, bool add) { sum_rows(grad, ids_, block, add); });
    return {};
  }

 private:
  // That of all rows, in the sizes of the ids.
  Tensor gradient_of_tokens(const Tensor& grad_output) const {
    if (output_.rows.empty()) return grad_output;
    std::vector<int64_t> sizes = ids_.sizes().vec();
    sizes.push_back(grad_output.size(-1));
    return all_rows(context_, grad_output, output_, weight_.name()).wait().view(sizes);
  }

  void sum_tokens(const Tensor& grad, const Tensor& block, bool add) const {
    const Tensor ids = ids_.contiguous();
    const TokenGradients tokens{.type = grad.scalar_type(),
                                .tokens = ids.numel(),
                                .width = block.size(1),
                                .gradients = grad.const_data_ptr(),
                                .ids = ids.const_data_ptr<int64_t>(),
                                .first = rows_.begin,
                                .here = rows_.size(),
                                .words = block.size(0)};
    const Tensor scratch = at::empty({embedding_scratch_bytes(tokens)}, ids.options().dtype(at::kByte));
    embedding_backward(tokens, scratch.mutable_data_ptr(), block.mutable_data_ptr(), add, ids.get_device());
  }

  ContextHandle context_;
  ShardedParameter weight_;
  EmbeddingOptions options_;
  Layout output_;
  bool fused_;
  Range rows_;        // vocabulary rows of this rank
  Tensor ids_;        // relative to rows_.begin, unless fused
  Tensor elsewhere_;  // mask of the ids that other ranks hold, unless fused
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

class PlacesOperation : public Operation {
 public:
  // `rows`: the axis whose ranks divide the rows; `places` are those of this rank's.
  PlacesOperation(ShardedParameter weight, Tensor places, AxisSet rows)
      : weight_(std::move(weight)), places_(std::move(places)), rows_(rows) {}
  std::string name() const override { return "positions " + weight_.name(); }

  Tensor forward(const Tensor& input) override { return input + at::embedding(*weight_.gathered(), places_); }

  Tensor backward(const Tensor& grad_output, bool) override {
    reduce_over(weight_.scheduler(), rows_, weight_, [&](const Tensor& block, bool add) {
      sum_rows(grad_output.to(block.scalar_type()), places_, block, add);
    });
    return grad_output;
  }

 private:
  ShardedParameter weight_;
  Tensor places_;
  AxisSet rows_;
};

// Of ids on a GPU: the kernels count in 32 bits and sum into wide gradients.
bool kernels_fit(const Tensor& ids, const ShardedParameter& weight, at::ScalarType gradients) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return ids.numel() <= kMost && weight.spec().dims[0].size() <= kMost && gradients == wide_type(weight.shard());
}

}  // namespace

std::unique_ptr<Operation> embedding_operation(Context& context, ShardedParameter weight,
                                               const EmbeddingOptions& options, Layout output, bool fused) {
  return std::make_unique<EmbeddingOperation>(context, std::move(weight), options, std::move(output), fused);
}

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

Value EmbeddingImpl::forward(const Tensor& ids) { return forward(ids, Layout::over(options_.feature_axis)); }

Value EmbeddingImpl::forward(const Tensor& ids, const Layout& output) {
  const Axis divided = other_tensor_axis(options_.feature_axis);
  AXONN_CHECK(output == Layout::over(options_.feature_axis).with_rows(output.rows) &&
                  (output.rows.empty() || (at::IntArrayRef(output.rows) == ids.sizes() &&
                                           divided == options_.vocabulary_axis && context().shape()[divided] > 1)),
              "layers.embedding", "the output must be over ", to_string(options_.feature_axis),
              ", and its rows, if two ranks or more of the vocabulary's axis divide them, ", ids.sizes(), "; got '",
              output.to_string(), "'; take what stream_layout() returns");
  AXONN_CHECK(ids.scalar_type() == at::kLong, "layers.embedding", "ids must be int64, got ",
              c10::toString(ids.scalar_type()));
  if (ids.device().is_cpu() && ids.numel() > 0)
    AXONN_CHECK(ids.min().item<int64_t>() >= 0 && ids.max().item<int64_t>() < options_.vocabulary, "layers.embedding",
                "ids must be in [0, ", options_.vocabulary, "), got ", ids.min().item<int64_t>(), " .. ",
                ids.max().item<int64_t>());
  const bool fused = ids.is_cuda() && context().options().kernels.embedding &&
                     kernels_fit(ids, weight_, context().arena_types().gradients);
  return {record(embedding_operation(context(), weight_, options_, output, fused), ids, {&weight_}), options_.features,
          output};
}

PositionsImpl::PositionsImpl(Context& context, PositionsOptions options)
    : ShardedModule(context),
      options_(options),
      weight_(register_sharded(
          "weight", {.spec = {.dims = {Dim::whole(options.length), Dim::split(options.features, options.feature_axis)},
                              .over_z = true},
                     .initial = options.initial})) {}

void PositionsImpl::check(const Value& input) const {
  check_layout(input, options_.features, Layout::over(options_.feature_axis).with_rows(input.layout.rows),
               "layers.positions");
  const std::vector<int64_t> tokens = input.leading();
  const int64_t most = options_.length / context().options().forward.context;  // on a rank
  AXONN_CHECK(tokens.size() == 2 && tokens[1] <= most, "layers.positions", "needs (batch, sequence <= ", most,
              ", features), got sizes ", input.tensor.sizes());
}

Value PositionsImpl::forward(const Value& input, const Tensor& places) {
  check(input);
  AXONN_CHECK(places.sizes() == at::IntArrayRef(input.leading()), "layers.positions",
              "needs a place for each of the tokens ", at::IntArrayRef(input.leading()), ", got sizes ",
              places.sizes());
  return at_places(input, places);
}

// `places`: of all rows.
Value PositionsImpl::at_places(const Value& input, const Tensor& places) {
  Tensor mine = places;
  if (!input.layout.rows.empty()) {
    const Range rows = input.layout.my_rows(context());
    mine = places.flatten().narrow(0, rows.begin, rows.size());
  }
  auto operation = std::make_unique<PlacesOperation>(weight_, mine, input.layout.rows_axis());
  return {record(std::move(operation), input.tensor, {&weight_}), input.features, input.layout};
}

Value PositionsImpl::forward(const Value& input) {
  check(input);
  const std::vector<int64_t> tokens = input.leading();
  if (!input.layout.rows.empty() || context().options().forward.context > 1)
    return at_places(input, my_places(context(), tokens[1], input.tensor.device()).expand(tokens).contiguous());
  return {record(std::make_unique<PositionsOperation>(weight_), input.tensor, {&weight_}), input.features,
          input.layout};
}

Value PositionsImpl::forward(const Value& input, const std::vector<int64_t>& begins) {
  check_layout(input, options_.features, Layout::over(options_.feature_axis), "layers.positions");
  const int64_t tokens = input.tensor.size(1);
  AXONN_CHECK(static_cast<int64_t>(begins.size()) == input.tensor.size(0) && *std::ranges::min_element(begins) >= 0 &&
                  *std::ranges::max_element(begins) + tokens <= options_.length,
              "layers.positions", "texts may have ", options_.length,
              " tokens, and these have more; make them shorter");
  const at::NoGradGuard no_grad;
  const Tensor places = at::tensor(begins, at::kLong).unsqueeze(1) + at::arange(tokens, at::kLong);
  const Tensor rows = at::embedding(*weight_.gathered(), places.to(input.tensor.device()));
  return {input.tensor + rows, input.features, input.layout};
}

}  // namespace axonn
