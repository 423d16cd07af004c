#include "kernels/cpu/causal_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/triu.h>

#include "kernels/cpu/parallel.hpp"

namespace axonn {
namespace {

using at::Tensor;

// Some heads of keys of one sample, and the `group` heads of queries of each.
struct Share {
  int64_t sample, first, count, group;
  // (batch, sequence, ..., heads, f) -> (sequence, ..., h, f)
  Tensor of_keys(const Tensor& tensor) const { return tensor[sample].narrow(-2, first, count); }
  Tensor of_queries(const Tensor& tensor) const { return tensor[sample].narrow(-2, first * group, count * group); }
  Tensor of_block(const Tensor& probabilities /* (batch, heads, r, n) */) const {
    return probabilities[sample].narrow(0, first * group, count * group);
  }
  // The j-th head of queries of each head of keys: (h group, ...) -> (h, ...)
  Tensor one_of_each(const Tensor& by_head, int64_t j) const {
    return group == 1 ? by_head : by_head.slice(0, j, by_head.size(0), group);
  }
};

// `rows` queries from `begin` on, whose keys of their own place begin at `place`, and the keys
// first .. place + rows that they see.
struct Block {
  int64_t begin, rows, place, first;
  int64_t keys() const { return place + rows - first; }
  Tensor of(const Tensor& tensor) const { return tensor.narrow(1, begin, rows); }
  Tensor seen(const Tensor& tensor) const { return tensor.narrow(1, first, keys()); }
};

std::vector<Block> blocks_of(int64_t queries, int64_t keys, int64_t rows, int64_t window) {
  std::vector<Block> all;
  for (int64_t begin = 0; begin < queries; begin += rows) {
    const int64_t place = keys - queries + begin;
    all.push_back(
        {begin, std::min(rows, queries - begin), place, window == 0 ? 0 : std::max<int64_t>(0, place - window + 1)});
  }
  return all;
}

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

// -infinity above the diagonal of (rows, rows), and below it.
struct Masks {
  Masks(int64_t rows, const at::TensorOptions& options)
      : later(at::full({rows, rows}, -std::numeric_limits<double>::infinity(), options).triu(1)),
        earlier(later.t().contiguous()) {}
  Tensor later, earlier;
};

// Shapes: h = heads of keys of a thread's share, g = heads of queries of each, s = number of
// queries or of keys, f = features of a head. A block has r queries and the n keys that they may
// see.
class Work {
 public:
  Work(const CausalAttention::Heads& heads, const CausalAttentionOptions& options)
      : inputs_(heads),
        products_(options.products),
        window_(options.window),
        blocks_(blocks_of(heads[0].size(1), heads[1].size(1), options.rows, options.window)) {}

  const std::vector<Block>& blocks() const { return blocks_; }

  // Calls work(share) for all heads of all samples, on several threads, past autograd.
  template <typename Body>
  void for_shares(const Body& body) const {
    const int64_t heads = inputs_[1].size(2), group = heads > 0 ? inputs_[0].size(2) / heads : 1;
    parallel_for(0, inputs_[0].size(0) * heads, 1, [&](int64_t begin, int64_t end) {
      const at::AutoDispatchBelowADInplaceOrView past_autograd;
      for (int64_t at = begin, count = 0; at < end; at += count) {
        count = std::min(heads - at % heads, end - at);
        body(Share{at / heads, at % heads, count, group});
      }
    });
  }

  void attend(const Share& share, const Masks& masks, const Tensor& output,
              const std::vector<Tensor>& probabilities) const {
    const Tensor queries = by_head(share.of_queries(inputs_[0])), keys = by_head(share.of_keys(inputs_[1])),
                 values = by_head(share.of_keys(inputs_[2]));
    const Rounded result(share.of_queries(output), products_);
    const Tensor outputs = result.values().transpose(0, 1);  // (h g, s, f)
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      const Rounded seen(share.of_block(probabilities[i]), products_);
      Tensor scores = seen.values();  // (h g, r, n)
      for (int64_t j = 0; j < share.group; ++j)
        multiply(share.one_of_each(scores, j), block.of(share.one_of_each(queries, j)),
                 block.seen(keys).transpose(1, 2), scale());
      hide(scores, block, masks);
      at::_softmax_out(scores, scores, -1, /*half_to_float=*/false);
      seen.finish();
      for (int64_t j = 0; j < share.group; ++j)
        multiply(block.of(share.one_of_each(outputs, j)), share.one_of_each(scores, j), block.seen(values));
    }
    result.finish();
  }

  void attend_backward(const Share& share, const std::vector<Tensor>& probabilities, const Tensor& grad_output,
                       const CausalAttention::Heads& gradients) const {
    const Tensor queries = by_head(share.of_queries(inputs_[0])), keys = by_head(share.of_keys(inputs_[1])),
                 values = by_head(share.of_keys(inputs_[2])), grad = by_head(share.of_queries(grad_output));
    const std::array<Rounded, 3> results = {Rounded(share.of_queries(gradients[0]), products_),
                                            Rounded(share.of_keys(gradients[1]), products_),
                                            Rounded(share.of_keys(gradients[2]), products_)};
    const auto of_gradient = [&](size_t which) { return results[which].values().transpose(0, 1); };
    const Tensor grad_queries = of_gradient(0), grad_keys = of_gradient(1), grad_values = of_gradient(2);
    const bool all_keys_at_once = window_ == 0;  // the last block sees every key: it writes, the others add
    if (!all_keys_at_once) {
      grad_keys.zero_();
      grad_values.zero_();
    }
    for (size_t i = blocks_.size(); i-- > 0;) {
      const Block& block = blocks_[i];
      const Tensor seen = share.of_block(probabilities[i]).to(products_);  // (h g, r, n)
      Tensor scores = at::empty(seen.sizes(), seen.options());
      for (int64_t j = 0; j < share.group; ++j) {
        const bool add = !all_keys_at_once || i + 1 < blocks_.size() || j > 0;
        const Tensor grads = block.of(share.one_of_each(grad, j)), some = share.one_of_each(seen, j);
        multiply(block.seen(grad_values), some.transpose(1, 2), grads, 1, add);
        multiply(share.one_of_each(scores, j), grads, block.seen(values).transpose(1, 2));
      }
      at::_softmax_backward_data_out(scores, scores, seen, -1, products_);
      for (int64_t j = 0; j < share.group; ++j) {
        const bool add = !all_keys_at_once || i + 1 < blocks_.size() || j > 0;
        const Tensor some = share.one_of_each(scores, j);
        multiply(block.of(share.one_of_each(grad_queries, j)), some, block.seen(keys), scale());
        multiply(block.seen(grad_keys), some.transpose(1, 2), block.of(share.one_of_each(queries, j)), scale(), add);
      }
    }
    for (const Rounded& result : results) result.finish();
  }

 private:
  double scale() const { return 1 / std::sqrt(static_cast<double>(inputs_[0].size(3))); }

  Tensor by_head(const Tensor& some /* (s, heads, f) */) const { return some.to(products_).transpose(0, 1); }

  // Adds -infinity to the scores of keys behind a query, and of those before its window.
  void hide(const Tensor& scores, const Block& block, const Masks& masks) const {
    const int64_t r = block.rows;
    scores.narrow(2, block.place - block.first, r).add_(masks.later.narrow(0, 0, r).narrow(1, 0, r));
    if (window_ == 0) return;
    // Query begin + i does not see the keys before place + i - window + 1, which are the first
    // i - (r - rows) of the block's.
    const int64_t rows = r + block.place - window_ - block.first + 1;
    if (rows > 0)
      scores.narrow(1, r - rows, rows).narrow(2, 0, rows).add_(masks.earlier.narrow(0, 0, rows).narrow(1, 0, rows));
  }

  const CausalAttention::Heads& inputs_;
  at::ScalarType products_;
  int64_t window_;
  std::vector<Block> blocks_;
};

}  // namespace

CausalAttention::Result CausalAttention::forward(const Heads& heads) const {
  const Work work(heads, options_);
  const Tensor& queries = heads[0];
  Result result{.output = at::empty(queries.sizes(), queries.options()), .probabilities = {}};
  const Masks masks(options_.rows, queries.options().dtype(options_.products));
  for (const Block& block : work.blocks())
    result.probabilities.push_back(
        at::empty({queries.size(0), queries.size(2), block.rows, block.keys()}, queries.options()));
  work.for_shares([&](const Share& share) { work.attend(share, masks, result.output, result.probabilities); });
  return result;
}

void CausalAttention::backward(const Heads& heads, const std::vector<Tensor>& probabilities, const Tensor& grad,
                               const Heads& gradients) const {
  const Work work(heads, options_);
  work.for_shares([&](const Share& share) { work.attend_backward(share, probabilities, grad, gradients); });
}

}  // namespace axonn
