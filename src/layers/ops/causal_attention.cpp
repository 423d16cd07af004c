#include "layers/ops/causal_attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/triu.h>

#include "layers/ops/heads_operation.hpp"
#include "layers/parallel.hpp"

namespace axonn {
namespace {

// Some heads of one sample.
struct Heads {
  int64_t sample, first, count;
  // (batch, sequence, ..., heads, f) -> (sequence, ..., h, f)
  Tensor of(const Tensor& tensor) const { return tensor[sample].narrow(-2, first, count); }
  Tensor of_block(const Tensor& probabilities /* (batch, heads, r, n) */) const {
    return probabilities[sample].narrow(0, first, count);
  }
};

// Results that are computed in the type of the products and rounded once.
class Rounded {
 public:
  Rounded(Tensor place, at::ScalarType type)
      : place_(std::move(place)),
        values_(place_.scalar_type() == type ? place_ : at::empty(place_.sizes(), place_.options().dtype(type))) {}
  const Tensor& values() const { return values_; }
  void finish() const {
    if (!values_.is_same(place_)) place_.copy_(values_);
  }

 private:
  Tensor place_, values_;
};

// out = alpha * a b (+ out)
void multiply(const Tensor& out, const Tensor& a, const Tensor& b, double alpha = 1, bool add = false) {
  Tensor result = out;
  at::baddbmm_out(result, out, a, b, add ? 1 : 0, alpha);
}

// Shapes: h = heads of a thread's share, s = sequence, f = features of a head. A block has r
// queries and the n = begin + r keys that they may see.
class CausalAttention : public TensorOperation {
 public:
  CausalAttention(int64_t rows, at::ScalarType products) : rows_(rows), products_(products) {}
  std::string name() const override { return "causal_attention"; }

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs) override {
    for (size_t i = 0; i < inputs.size(); ++i) inputs_[i].keep(inputs[i]);
    const Tensor& queries = inputs[0];
    batch_ = queries.size(0), sequence_ = queries.size(1), heads_ = queries.size(2), features_ = queries.size(3);
    const Tensor output = at::empty({batch_, sequence_, heads_, features_}, queries.options());
    const Tensor later = at::full({rows_, rows_}, -std::numeric_limits<double>::infinity(),
                                  queries.options().dtype(products_))
                             .triu(1);  // masks later keys
    for (const Block& block : blocks())
      probabilities_.push_back(at::empty({batch_, heads_, block.rows, block.end()}, queries.options()));
    for_heads([&](const Heads& heads) { attend(heads, inputs, later, output); });
    return {output.view({batch_, sequence_, heads_ * features_})};
  }

  std::vector<Tensor> backward(const std::vector<Tensor>& gradients) override {
    const std::vector<Tensor> inputs = {inputs_[0].get(), inputs_[1].get(), inputs_[2].get()};
    const Tensor grad = gradients[0].contiguous().view({batch_, sequence_, heads_, features_});
    std::vector<Tensor> grads = heads_in_one(inputs);
    for_heads([&](const Heads& heads) { attend_backward(heads, inputs, grad, grads); });
    return grads;
  }

  void release() override {
    for (Saved& input : inputs_) input.reset();
    probabilities_.clear();
  }

 private:
  struct Block {
    int64_t begin, rows;
    int64_t end() const { return begin + rows; }
    Tensor of(const Tensor& tensor) const { return tensor.narrow(1, begin, rows); }
    Tensor seen(const Tensor& tensor) const { return tensor.narrow(1, 0, end()); }
  };
  std::vector<Block> blocks() const {
    std::vector<Block> all;
    for (int64_t begin = 0; begin < sequence_; begin += rows_)
      all.push_back({begin, std::min(rows_, sequence_ - begin)});
    return all;
  }

  // Calls work(heads) for all heads of all samples, on several threads, past autograd.
  template <typename Work>
  void for_heads(const Work& work) const {
    at::parallel_for(0, batch_ * heads_, 1, [&](int64_t begin, int64_t end) {
      const at::AutoDispatchBelowADInplaceOrView past_autograd;
      for (int64_t at = begin, count = 0; at < end; at += count) {
        count = std::min(heads_ - at % heads_, end - at);
        work(Heads{at / heads_, at % heads_, count});
      }
    });
  }

  double scale() const { return 1 / std::sqrt(static_cast<double>(features_)); }

  Tensor by_head(const Heads& heads, const Tensor& input) const {  // (h, s, f)
    return heads.of(input).to(products_).transpose(0, 1);
  }

  void attend(const Heads& heads, const std::vector<Tensor>& inputs, const Tensor& later, const Tensor& output) {
    const Tensor queries = by_head(heads, inputs[0]), keys = by_head(heads, inputs[1]),
                 values = by_head(heads, inputs[2]);
    const Rounded result(heads.of(output), products_);
    const auto all = blocks();
    for (size_t i = 0; i < all.size(); ++i) {
      const Block& block = all[i];
      const Rounded seen(heads.of_block(probabilities_[i]), products_);
      Tensor scores = seen.values();  // (h, r, n)
      multiply(scores, block.of(queries), block.seen(keys).transpose(1, 2), scale());
      scores.narrow(2, block.begin, block.rows).add_(later.narrow(0, 0, block.rows).narrow(1, 0, block.rows));
      at::_softmax_out(scores, scores, -1, /*half_to_float=*/false);
      seen.finish();
      multiply(block.of(result.values().transpose(0, 1)), scores, block.seen(values));
    }
    result.finish();
  }

  void attend_backward(const Heads& heads, const std::vector<Tensor>& inputs, const Tensor& grad_output,
                       const std::vector<Tensor>& gradients) {
    const Tensor queries = by_head(heads, inputs[0]), keys = by_head(heads, inputs[1]),
                 values = by_head(heads, inputs[2]), grad = by_head(heads, grad_output);
    const std::array<Rounded, 3> results = {Rounded(heads.of(gradients[0]), products_),
                                            Rounded(heads.of(gradients[1]), products_),
                                            Rounded(heads.of(gradients[2]), products_)};
    const auto of_gradient = [&](size_t which) { return results[which].values().transpose(0, 1); };
    const Tensor grad_queries = of_gradient(0), grad_keys = of_gradient(1), grad_values = of_gradient(2);
    const auto all = blocks();
    for (size_t i = all.size(); i-- > 0;) {
      const Block& block = all[i];
      const bool add = i + 1 < all.size();  // the last block sees every key: it writes, the others add
      const Tensor seen = heads.of_block(probabilities_[i]).to(products_);  // (h, r, n)
      multiply(block.seen(grad_values), seen.transpose(1, 2), block.of(grad), 1, add);
      Tensor scores = at::empty(seen.sizes(), seen.options());
      multiply(scores, block.of(grad), block.seen(values).transpose(1, 2));
      at::_softmax_backward_data_out(scores, scores, seen, -1, products_);
      multiply(block.of(grad_queries), scores, block.seen(keys), scale());
      multiply(block.seen(grad_keys), scores.transpose(1, 2), block.of(queries), scale(), add);
    }
    for (const Rounded& result : results) result.finish();
  }

  int64_t rows_;
  at::ScalarType products_;
  int64_t batch_ = 0, sequence_ = 0, heads_ = 0, features_ = 0;
  std::array<Saved, 3> inputs_;        // queries, keys, values
  std::vector<Tensor> probabilities_;  // per block (batch, heads, r, n)
};

}  // namespace

std::unique_ptr<TensorOperation> causal_attention(int64_t rows, at::ScalarType products) {
  return std::make_unique<CausalAttention>(rows, products);
}

}  // namespace axonn
