#include "kernels/cpu/attention_tiles.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/softmax_rows.hpp"
#include "kernels/cpu/tile_values.hpp"

namespace axonn {
namespace {

using at::Tensor;
using Blocks = std::span<const AttentionBlock>;

constexpr int64_t kRows = 128, kLeastQueries = 8, kKeys = 256;  // a tile's

// A head of keys of a sample.
struct Head {
  int64_t sample, number;
  Tensor of(const Tensor& all /* (batch, kv, ...) */) const { return all[sample][number]; }
};

// out = alpha a b (+ out)
void multiply(Tensor out, const Tensor& a, const Tensor& b, bool add, double alpha = 1) {
  at::addmm_out(out, out, a, b, add ? 1 : 0, alpha);
}

// Calls work(item) for every item on several threads, past autograd. A single one runs in a team,
// too: there a product is one thread's, and has the same bits on any number of threads.
template <typename Work>
void for_items(int64_t items, const Work& work) {
  parallel_for(0, std::max<int64_t>(2, items), 1, [&](int64_t begin, int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView past_autograd;
    for (int64_t item = begin; item < std::min(end, items); ++item) work(item);
  });
}

// A thread's matrix number `which`, with whatever it holds.
Tensor scratch(size_t which, int64_t rows, int64_t columns, const at::TensorOptions& options) {
  thread_local std::array<Tensor, 4> memory;
  Tensor& mine = memory[which];
  if (!mine.defined() || mine.numel() < rows * columns || mine.dtype() != options.dtype())
    mine = at::empty({rows * columns}, options);
  return mine.narrow(0, 0, rows * columns).view({rows, columns});
}

// Shapes: g = heads of queries that share one of keys. A tile has R = g r rows, the g heads of each
// of its r queries, and n keys.
template <typename T>
class AttentionTiles : public AttentionByBlocks {
 public:
  AttentionTiles(const Tensor& queries, int64_t key_heads, AttentionRules rules)
      : queries_(queries.detach()),
        batch_(queries.size(0)),
        key_heads_(key_heads),
        group_(key_heads > 0 ? queries.size(2) / key_heads : 1),
        features_(queries.size(3)),
        scale_(1 / std::sqrt(static_cast<double>(features_))),
        most_{.queries = std::max(kLeastQueries, kRows / std::max<int64_t>(1, group_)), .keys = kKeys},
        wide_(queries.options().dtype(c10::CppTypeToScalarType<T>::value).requires_grad(false)),
        rules_(std::move(rules)) {}

  void begin() override {
    output_ = at::zeros(by_key_head(features_), wide_);
    sums_ = at::zeros(by_key_head(1), wide_);
    greatest_ = at::full(by_key_head(1), -std::numeric_limits<double>::infinity(), wide_);
  }

  void attend(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
              const KeysValues& seen) override {
    const std::vector<AttentionBlock> blocks = attention_blocks(queries, keys, rules_.sight, most_);
    std::vector<Blocks> parts;  // each of the same queries
    for (size_t begin = 0, i = 0; i < blocks.size(); begin = i) {
      while (i < blocks.size() && blocks[i].queries == blocks[begin].queries) ++i;
      parts.push_back(Blocks(blocks).subspan(begin, i - begin));
    }
    const auto count = static_cast<int64_t>(parts.size());
    const KeysValues all{wide(seen.keys), wide(seen.values)};
    for_items(batch_ * key_heads_ * count, [&](int64_t item) {
      // Later queries see more keys, so neighbours are a first and a last part.
      const int64_t head = item / count, of_head = item % count,
                    part = of_head % 2 == 0 ? of_head / 2 : count - 1 - of_head / 2;
      see_keys({head / key_heads_, head % key_heads_}, parts[static_cast<size_t>(part)], all);
    });
  }

  Result end() override {
    return {.output = by_token(output_.div_(sums_)).to(queries_.scalar_type()),
            .logarithms = sums_.log_().add_(greatest_)};
  }

  void begin_backward(const Result& result, const Tensor& grad_output) override {
    grad_output_ = grad_output.detach();
    logarithms_ = result.logarithms;
    dots_ = (wide(grad_output_) * wide(result.output)).sum(-1);
    const Tensor by_head = dots_.view({batch_, queries_.size(1), key_heads_, group_}).transpose(1, 2);
    dots_ = by_head.contiguous().view(logarithms_.sizes());
    grad_queries_ = at::zeros(by_key_head(features_), wide_);
  }

  void attend_backward(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys, const KeysValues& seen,
                       const KeysValues& to) override {
    const std::vector<AttentionBlock> blocks = attention_blocks(queries, keys, rules_.sight, most_);
    const KeysValues all{wide(seen.keys), wide(seen.values)};
    for_items(batch_ * key_heads_,
              [&](int64_t head) { see_keys_backward({head / key_heads_, head % key_heads_}, blocks, all, to); });
  }

  Tensor grad_queries() const override { return by_token(grad_queries_); }

 private:
  std::vector<int64_t> by_key_head(int64_t each) const { return {batch_, key_heads_, queries_.size(1) * group_, each}; }
  Tensor by_token(const Tensor& some /* (batch, kv, q g, f) */) const {
    return some.view({batch_, key_heads_, queries_.size(1), group_, features_})
        .transpose(1, 2)
        .reshape(queries_.sizes());
  }
  // Products of rows that lie apart from each other took some percent longer than the copy.
  Tensor wide(const Tensor& some) const { return some.detach().to(wide_.dtype()).contiguous(); }

  Tensor rows_of(const Tensor& all, const AttentionBlock& block) const {
    return all.narrow(0, block.queries.rows.begin * group_, block.queries.rows.size() * group_);
  }
  static Tensor keys_of(const Tensor& all, const AttentionBlock& block) {
    return all.narrow(0, block.keys.rows.begin, block.keys.rows.size());
  }

  static T* numbers(const Tensor& some) { return some.mutable_data_ptr<T>(); }

  // Of (batch, q, heads, f) the rows of a tile, (R, f), as a thread's matrix.
  Tensor gathered(size_t which, const Tensor& all, const Head& head, const AttentionBlock& block) const {
    const int64_t queries = block.queries.rows.size();
    const Tensor rows = scratch(which, queries * group_, features_, wide_);
    rows.view({queries, group_, features_})
        .copy_(all[head.sample].narrow(0, block.queries.rows.begin, queries).narrow(1, head.number * group_, group_));
    return rows;
  }

  static Tensor tile(size_t which, const Tensor& rows, const AttentionBlock& block) {
    const int64_t keys = block.keys.rows.size();
    return scratch(which, rows.size(0), padded<T>(keys), rows.options()).narrow(1, 0, keys);
  }

  // Calls row(number, columns, added, factors) for all rows of a tile.
  template <typename Row>
  void for_rows(const Tensor& scores, const Head& head, const AttentionBlock& block, const Row& row) const {
    const AttentionPart part{.block = block,
                             .samples = {head.sample, head.sample + 1},
                             .heads = {head.number * group_, (head.number + 1) * group_}};
    const int64_t stride = scores.stride(0), keys = scores.size(1), queries = block.queries.rows.size();
    const Tensor like = scores.as_strided({1, group_, queries, keys}, {0, stride, group_ * stride, 1});
    const TileValues<T> added(rules_.added, part, like), factors(rules_.dropped, part, like);
    T* const data = numbers(scores);
    with_wide_vectors([&]() AXONN_INLINE_LAMBDA {
      for (int64_t query = 0; query < queries; ++query) {
        const int64_t own = block.queries.place + query - block.keys.place;
        const int64_t end = rules_.sight.causal ? std::min(keys, own + 1) : keys,
                      begin = rules_.sight.window > 0 ? std::max<int64_t>(0, own + 1 - rules_.sight.window) : 0;
        for (int64_t j = 0; j < group_; ++j) {
          const int64_t number = query * group_ + j;
          row(number, ScoreRow<T>{.scores = data + number * stride, .columns = stride, .begin = begin, .end = end},
              added.row(j, query), factors.row(j, query));
        }
      }
    });
  }

  void see_keys(const Head& head, Blocks blocks, const KeysValues& all) const {
    const Tensor keys = head.of(all.keys), values = head.of(all.values);
    const Tensor queries = gathered(0, queries_, head, blocks[0]).mul_(scale_),
                 output = rows_of(head.of(output_), blocks[0]);
    T *const sums = numbers(rows_of(head.of(sums_), blocks[0])),
             *const greatest = numbers(rows_of(head.of(greatest_), blocks[0])), *const outputs = numbers(output);
    for (const AttentionBlock& block : blocks) {
      const Tensor scores = tile(2, queries, block);
      multiply(scores, queries, keys_of(keys, block).t(), false);
      for_rows(scores, head, block,
               [&](int64_t i, const ScoreRow<T>& row, const T* added, const T* factors) AXONN_INLINE_LAMBDA {
                 see(row, added, factors, SeenSoFar<T>{greatest[i], sums[i], outputs + i * features_, features_});
               });
      multiply(output, scores, keys_of(values, block), true);
    }
  }

  void see_keys_backward(const Head& head, Blocks blocks, const KeysValues& all, const KeysValues& to) const {
    const Tensor keys = head.of(all.keys), values = head.of(all.values), grad_keys = head.of(to.keys),
                 grad_values = head.of(to.values);
    Tensor queries, grads, grad_queries;
    const T *logarithms = nullptr, *dots = nullptr;
    for (const AttentionBlock& block : blocks) {
      if (&block == blocks.data() || block.queries != (&block - 1)->queries) {
        queries = gathered(0, queries_, head, block).mul_(scale_);
        grads = gathered(1, grad_output_, head, block);
        grad_queries = rows_of(head.of(grad_queries_), block);
        logarithms = numbers(rows_of(head.of(logarithms_), block));
        dots = numbers(rows_of(head.of(dots_), block));
      }
      const Tensor scores = tile(2, queries, block), changes = tile(3, queries, block);
      multiply(scores, queries, keys_of(keys, block).t(), false);
      multiply(changes, grads, keys_of(values, block).t(), false);
      T* const change = numbers(changes);
      for_rows(scores, head, block,
               [&](int64_t i, const ScoreRow<T>& row, const T* added, const T* factors) AXONN_INLINE_LAMBDA {
                 see_backward(row, change + i * row.columns, added, factors, logarithms[i], dots[i]);
               });
      multiply(keys_of(grad_values, block), scores.t(), grads, true);
      multiply(keys_of(grad_keys, block), changes.t(), queries, true);
      multiply(grad_queries, changes, keys_of(keys, block), true, scale_);
    }
  }

  Tensor queries_;  // (batch, q, heads, f)
  int64_t batch_, key_heads_, group_, features_;
  double scale_;
  BlockSizes most_;
  at::TensorOptions wide_;
  AttentionRules rules_;
  Tensor greatest_, sums_, output_;  // so far: (batch, kv, q g, 1 or f)
  Tensor grad_output_;               // (batch, q, heads, f)
  Tensor logarithms_, dots_;         // (batch, kv, q g, 1): of sums; of outputs with their gradients
  Tensor grad_queries_;              // (batch, kv, q g, f)
};

}  // namespace

std::unique_ptr<AttentionByBlocks> attention_tiles(const Tensor& queries, int64_t key_heads, AttentionRules rules) {
  if (queries.scalar_type() == at::kDouble)
    return std::make_unique<AttentionTiles<double>>(queries, key_heads, std::move(rules));
  return std::make_unique<AttentionTiles<float>>(queries, key_heads, std::move(rules));
}

}  // namespace axonn
