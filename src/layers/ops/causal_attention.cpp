#include "layers/ops/causal_attention.hpp"

#include <algorithm>
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
class CausalAttention : public Operation {
 public:
  CausalAttention(int64_t rows, at::ScalarType products) : rows_(rows), products_(products) {}
  std::string name() const override { return "causal_attention"; }

  Tensor forward(const Tensor& qkv) override {
    qkv_.keep(qkv);
    batch_ = qkv.size(0), sequence_ = qkv.size(1), heads_ = qkv.size(3), features_ = qkv.size(4);
    const Tensor output = at::empty({batch_, sequence_, heads_, features_}, qkv.options());
    const Tensor later = at::full({rows_, rows_}, -std::numeric_limits<double>::infinity(),
                                  qkv.options().dtype(products_))
                             .triu(1);  // masks later keys
    for (const Block& block : blocks())
      probabilities_.push_back(at::empty({batch_, heads_, block.rows, block.end()}, qkv.options()));
    for_heads([&](const Heads& heads) { attend(heads, qkv, later, output); });
    return output.view({batch_, sequence_, heads_ * features_});
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    const Tensor qkv = qkv_.get(), grad = grad_output.contiguous().view({batch_, sequence_, heads_, features_}),
                 grads = at::empty(qkv.sizes(), grad.options());
    for_heads([&](const Heads& heads) { attend_backward(heads, qkv, grad, grads); });
    return grads;
  }

  void release() override {
    qkv_.reset();
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

  void attend(const Heads& heads, const Tensor& qkv, const Tensor& later, const Tensor& output) {
    const Tensor parts = heads.of(qkv).to(products_).permute({1, 2, 0, 3});  // (3, h, s, f)
    const Tensor queries = parts[0], keys = parts[1], values = parts[2];
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

  void attend_backward(const Heads& heads, const Tensor& qkv, const Tensor& grad_output, const Tensor& grad_qkv) {
    const Tensor parts = heads.of(qkv).to(products_).permute({1, 2, 0, 3});
    const Tensor queries = parts[0], keys = parts[1], values = parts[2];
    const Tensor grad = heads.of(grad_output).to(products_).transpose(0, 1);  // (h, s, f)
    const Rounded result(heads.of(grad_qkv), products_);
    const Tensor grads = result.values().permute({1, 2, 0, 3});
    const auto all = blocks();
    for (size_t i = all.size(); i-- > 0;) {
      const Block& block = all[i];
      const bool add = i + 1 < all.size();  // the last block sees every key: it writes, the others add
      const Tensor seen = heads.of_block(probabilities_[i]).to(products_);  // (h, r, n)
      multiply(block.seen(grads[2]), seen.transpose(1, 2), block.of(grad), 1, add);
      Tensor scores = at::empty(seen.sizes(), seen.options());
      multiply(scores, block.of(grad), block.seen(values).transpose(1, 2));
      at::_softmax_backward_data_out(scores, scores, seen, -1, products_);
      multiply(block.of(grads[0]), scores, block.seen(keys), scale());
      multiply(block.seen(grads[1]), scores.transpose(1, 2), block.of(queries), scale(), add);
    }
    result.finish();
  }

  int64_t rows_;
  at::ScalarType products_;
  int64_t batch_ = 0, sequence_ = 0, heads_ = 0, features_ = 0;
  Saved qkv_;
  std::vector<Tensor> probabilities_;  // per block (batch, heads, r, n)
};

}  // namespace

std::unique_ptr<Operation> causal_attention(int64_t rows, at::ScalarType products) {
  return std::make_unique<CausalAttention>(rows, products);
}

}  // namespace axonn
