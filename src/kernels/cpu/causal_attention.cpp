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

// Some heads of one sample.
struct Share {
  int64_t sample, first, count;
  // (batch, sequence, ..., heads, f) -> (sequence, ..., h, f)
  Tensor of(const Tensor& tensor) const { return tensor[sample].narrow(-2, first, count); }
  Tensor of_block(const Tensor& probabilities /* (batch, heads, r, n) */) const {
    return probabilities[sample].narrow(0, first, count);
  }
};

struct Block {
  int64_t begin, rows;
  int64_t end() const { return begin + rows; }
  Tensor of(const Tensor& tensor) const { return tensor.narrow(1, begin, rows); }
  Tensor seen(const Tensor& tensor) const { return tensor.narrow(1, 0, end()); }
};

std::vector<Block> blocks_of(int64_t sequence, int64_t rows) {
  std::vector<Block> all;
  for (int64_t begin = 0; begin < sequence; begin += rows) all.push_back({begin, std::min(rows, sequence - begin)});
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

// Shapes: h = heads of a thread's share, s = sequence, f = features of a head. A block has r
// queries and the n = begin + r keys that they may see.
class Work {
 public:
  Work(const CausalAttention::Heads& heads, int64_t rows, at::ScalarType products)
      : inputs_(heads), products_(products), blocks_(blocks_of(heads[0].size(1), rows)) {}

  const std::vector<Block>& blocks() const { return blocks_; }

  // Calls work(share) for all heads of all samples, on several threads, past autograd.
  template <typename Body>
  void for_shares(const Body& body) const {
    const int64_t heads = inputs_[0].size(2);
    parallel_for(0, inputs_[0].size(0) * heads, 1, [&](int64_t begin, int64_t end) {
      const at::AutoDispatchBelowADInplaceOrView past_autograd;
      for (int64_t at = begin, count = 0; at < end; at += count) {
        count = std::min(heads - at % heads, end - at);
        body(Share{at / heads, at % heads, count});
      }
    });
  }

  void attend(const Share& share, const Tensor& later, const Tensor& output,
              const std::vector<Tensor>& probabilities) const {
    const Tensor queries = by_head(share, inputs_[0]), keys = by_head(share, inputs_[1]),
                 values = by_head(share, inputs_[2]);
    const Rounded result(share.of(output), products_);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      const Rounded seen(share.of_block(probabilities[i]), products_);
      Tensor scores = seen.values();  // (h, r, n)
      multiply(scores, block.of(queries), block.seen(keys).transpose(1, 2), scale());
      scores.narrow(2, block.begin, block.rows).add_(later.narrow(0, 0, block.rows).narrow(1, 0, block.rows));
      at::_softmax_out(scores, scores, -1, /*half_to_float=*/false);
      seen.finish();
      multiply(block.of(result.values().transpose(0, 1)), scores, block.seen(values));
    }
    result.finish();
  }

  void attend_backward(const Share& share, const std::vector<Tensor>& probabilities, const Tensor& grad_output,
                       const CausalAttention::Heads& gradients) const {
    const Tensor queries = by_head(share, inputs_[0]), keys = by_head(share, inputs_[1]),
                 values = by_head(share, inputs_[2]), grad = by_head(share, grad_output);
    const std::array<Rounded, 3> results = {Rounded(share.of(gradients[0]), products_),
                                            Rounded(share.of(gradients[1]), products_),
                                            Rounded(share.of(gradients[2]), products_)};
    const auto of_gradient = [&](size_t which) { return results[which].values().transpose(0, 1); };
    const Tensor grad_queries = of_gradient(0), grad_keys = of_gradient(1), grad_values = of_gradient(2);
    for (size_t i = blocks_.size(); i-- > 0;) {
      const Block& block = blocks_[i];
      const bool add = i + 1 < blocks_.size();  // the last block sees every key: it writes, the others add
      const Tensor seen = share.of_block(probabilities[i]).to(products_);  // (h, r, n)
      multiply(block.seen(grad_values), seen.transpose(1, 2), block.of(grad), 1, add);
      Tensor scores = at::empty(seen.sizes(), seen.options());
      multiply(scores, block.of(grad), block.seen(values).transpose(1, 2));
      at::_softmax_backward_data_out(scores, scores, seen, -1, products_);
      multiply(block.of(grad_queries), scores, block.seen(keys), scale());
      multiply(block.seen(grad_keys), scores.transpose(1, 2), block.of(queries), scale(), add);
    }
    for (const Rounded& result : results) result.finish();
  }

 private:
  double scale() const { return 1 / std::sqrt(static_cast<double>(inputs_[0].size(3))); }

  Tensor by_head(const Share& share, const Tensor& input) const {  // (h, s, f)
    return share.of(input).to(products_).transpose(0, 1);
  }

  const CausalAttention::Heads& inputs_;
  at::ScalarType products_;
  std::vector<Block> blocks_;
};

}  // namespace

CausalAttention::Result CausalAttention::forward(const Heads& heads) const {
  const Work work(heads, rows_, products_);
  const Tensor& queries = heads[0];
  Result result{.output = at::empty(queries.sizes(), queries.options()), .probabilities = {}};
  const Tensor later = at::full({rows_, rows_}, -std::numeric_limits<double>::infinity(),
                                queries.options().dtype(products_))
                           .triu(1);  // masks later keys
  for (const Block& block : work.blocks())
    result.probabilities.push_back(
        at::empty({queries.size(0), queries.size(2), block.rows, block.end()}, queries.options()));
  work.for_shares([&](const Share& share) { work.attend(share, later, result.output, result.probabilities); });
  return result;
}

void CausalAttention::backward(const Heads& heads, const std::vector<Tensor>& probabilities, const Tensor& grad,
                               const Heads& gradients) const {
  const Work work(heads, rows_, products_);
  work.for_shares([&](const Share& share) { work.attend_backward(share, probabilities, grad, gradients); });
}

}  // namespace axonn
