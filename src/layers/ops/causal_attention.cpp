#include "layers/ops/causal_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/triu.h>

namespace axonn {
namespace {

// Shapes: b = batch * heads, s = sequence, f = features of a head. A block has r queries and the n
// = begin + r keys that they may see.
class CausalAttention : public Operation {
 public:
  explicit CausalAttention(int64_t rows) : rows_(rows) {}
  std::string name() const override { return "causal_attention"; }

  Tensor forward(const Tensor& qkv) override {
    sizes_ = qkv.sizes().vec();
    // (3, b, s, f)
    const Tensor parts =
        qkv.permute({2, 0, 3, 1, 4}).contiguous().view({3, sizes_[0] * sizes_[3], sizes_[1], sizes_[4]});
    queries_ = parts[0].mul_(1 / std::sqrt(static_cast<double>(sizes_[4])));
    keys_ = parts[1];
    values_ = parts[2];
    const Tensor later =
        at::full({rows_, rows_}, -std::numeric_limits<double>::infinity(), qkv.options()).triu(1);  // masks later keys
    const Tensor output = at::empty_like(queries_);
    for (const Block& block : blocks()) {
      const Tensor scores = at::bmm(block.of(queries_), block.seen(keys_).transpose(1, 2));  // (b, r, n)
      scores.narrow(2, block.begin, block.rows).add_(later.narrow(0, 0, block.rows).narrow(1, 0, block.rows));
      probabilities_.push_back(at::_softmax(scores, -1, /*half_to_float=*/false));
      block.of(output).copy_(at::bmm(probabilities_.back(), block.seen(values_)));
    }
    return output.view({sizes_[0], sizes_[3], sizes_[1], sizes_[4]})
        .transpose(1, 2)
        .reshape({sizes_[0], sizes_[1], sizes_[3] * sizes_[4]});
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    // (b, s, f)
    const Tensor grad =
        grad_output.view({sizes_[0], sizes_[1], sizes_[3], sizes_[4]}).transpose(1, 2).reshape(queries_.sizes());
    const Tensor grads = at::empty({3, queries_.size(0), queries_.size(1), queries_.size(2)}, grad.options());
    const Tensor grad_queries = grads[0], grad_keys = grads[1], grad_values = grads[2];
    const auto all = blocks();
    for (size_t i = all.size(); i-- > 0;) {  // the last block sees every key: it writes, the others add
      const Block& block = all[i];
      const Tensor& seen = probabilities_[i];  // (b, r, n)
      const bool first = i + 1 == all.size();
      const auto put = [first](const Tensor& sum, const Tensor& part) { first ? sum.copy_(part) : sum.add_(part); };
      put(block.seen(grad_values), at::bmm(seen.transpose(1, 2), block.of(grad)));
      const Tensor grad_seen = at::bmm(block.of(grad), block.seen(values_).transpose(1, 2));
      const Tensor grad_scores = at::_softmax_backward_data(grad_seen, seen, -1, seen.scalar_type());
      block.of(grad_queries).copy_(at::bmm(grad_scores, block.seen(keys_)));
      put(block.seen(grad_keys), at::bmm(grad_scores.transpose(1, 2), block.of(queries_)));
    }
    grad_queries.mul_(1 / std::sqrt(static_cast<double>(sizes_[4])));
    return grads.view({3, sizes_[0], sizes_[3], sizes_[1], sizes_[4]}).permute({1, 3, 0, 2, 4}).contiguous();
  }

  void release() override {
    queries_.reset();
    keys_.reset();
    values_.reset();
    probabilities_.clear();
  }

 private:
  struct Block {
    int64_t begin, rows;
    Tensor of(const Tensor& tensor) const { return tensor.narrow(1, begin, rows); }
    Tensor seen(const Tensor& tensor) const { return tensor.narrow(1, 0, begin + rows); }
  };
  std::vector<Block> blocks() const {
    std::vector<Block> all;
    for (int64_t begin = 0; begin < sizes_[1]; begin += rows_)
      all.push_back({begin, std::min(rows_, sizes_[1] - begin)});
    return all;
  }

  int64_t rows_;
  std::vector<int64_t> sizes_;      // sizes of qkv: batch, sequence, 3, heads, f
  Tensor queries_, keys_, values_;  // (b, s, f); the queries are divided by the root of f
  std::vector<Tensor> probabilities_;
};

}  // namespace

std::unique_ptr<Operation> causal_attention(int64_t rows) { return std::make_unique<CausalAttention>(rows); }

}  // namespace axonn
