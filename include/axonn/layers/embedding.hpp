#pragma once

#include <vector>

#include "axonn/layers/layout.hpp"
#include "axonn/layers/sharded_module.hpp"

namespace axonn {

struct EmbeddingOptions {
  int64_t vocabulary = 0;
  int64_t features = 0;
  Axis vocabulary_axis = Axis::x;  // rows, padded to a multiple of the axis
  Axis feature_axis = Axis::y;
  Initial initial = Initial::normal(0.02);
};

// Looks up rows of a table: ids (..., int64, the same on all X and Y ranks) -> (..., features/Y),
// replicated over X. Each rank looks up the ids of its own rows and masks the others; an all-reduce
// over the vocabulary axis adds the results. The block of the table (vocabulary, features) is
// sharded over Z. Every rank of the grid calls it.
//
// With an output layout whose rows are divided (Layout::rows), of the sizes of `ids`: a
// reduce-scatter gives each rank its rows, and backward gathers their gradients. UserError for any
// other layout but the plain one.
class EmbeddingImpl : public ShardedModule {
 public:
  EmbeddingImpl(Context& context, EmbeddingOptions options);
  Value forward(const at::Tensor& ids);  // on CPU, UserError for an id outside the vocabulary
  Value forward(const at::Tensor& ids, const Layout& output);
  const ShardedParameter& weight() const { return weight_; }

 private:
  EmbeddingOptions options_;
  ShardedParameter weight_;
};

using Embedding = Layer<EmbeddingImpl, EmbeddingOptions>;

struct PositionsOptions {
  int64_t length = 0;  // longest sequence
  int64_t features = 0;
  Axis feature_axis = Axis::y;
  Initial initial = Initial::normal(0.02);
};

// Adds a learned vector per position: (batch, sequence, features/Y) -> the same. The table (length,
// features) is replicated over X; its block is sharded over Z. With `begins`, sample b begins at
// position begins[b], and there are no gradients. With `places` (batch, sequence) int64, each token
// has a position of its own. Of divided rows, a rank adds to its own, and the gradient of the table
// is summed over the axis that divides them. If ranks divide sequences, this rank's tokens have the
// positions of my_places(); with `begins` all tokens are there.
class PositionsImpl : public ShardedModule {
 public:
  PositionsImpl(Context& context, PositionsOptions options);
  Value forward(const Value& input);
  Value forward(const Value& input, const std::vector<int64_t>& begins);
  Value forward(const Value& input, const at::Tensor& places);

 private:
  void check(const Value& input) const;
  Value at_places(const Value& input, const at::Tensor& places);

  PositionsOptions options_;
  ShardedParameter weight_;
};

using Positions = Layer<PositionsImpl, PositionsOptions>;

}  // namespace axonn
