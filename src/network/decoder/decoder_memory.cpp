#include <algorithm>
#include <utility>
#include <vector>

#include "axonn/network/decoder/decoder_network.hpp"

namespace axonn {
namespace {

ShardSpec matrix(Dim rows, Dim columns) { return {.dims = {std::move(rows), std::move(columns)}, .over_z = true}; }

ShardSpec vector(Dim features) { return {.dims = {std::move(features)}}; }

Dim over_x(int64_t size) { return Dim::split(size, Axis::x); }
Dim over_y(int64_t size) { return Dim::split(size, Axis::y); }

// Parts of a dim that are sharded one by one.
Dim parts_over_x(std::initializer_list<int64_t> sizes) {
  Dim dim;
  for (const int64_t size : sizes) dim.segments.push_back({.size = size, .axis = Axis::x});
  return dim;
}

Dim halves_over_x(const DecoderShape& shape, int64_t size) {
  return shape.gated ? parts_over_x({size, size}) : over_x(size);
}

void add_attention(std::vector<StoredTensors>& tensors, const DecoderShape& shape) {
  const int64_t d = shape.features_of_head(), keys = shape.keys() * d, l = shape.layers;
  const Dim qkv = parts_over_x({shape.attended(), keys, keys});
  tensors.push_back({matrix(qkv, over_y(shape.hidden)), l});
  if (shape.qkv_bias) tensors.push_back({vector(qkv), l});
  if (shape.qk_norm) tensors.push_back({vector(Dim::whole(d)), 2 * l});
  tensors.push_back({matrix(over_y(shape.hidden), over_x(shape.attended())), l});
}

void add_mlp(std::vector<StoredTensors>& tensors, const DecoderShape& shape, int64_t mlp, int64_t count, bool bias) {
  if (count == 0) return;
  tensors.push_back({matrix(halves_over_x(shape, mlp), over_y(shape.hidden)), count});
  if (bias) tensors.push_back({vector(halves_over_x(shape, mlp)), count});
  tensors.push_back({matrix(over_y(shape.hidden), over_x(mlp)), count});
}

void add_experts(std::vector<StoredTensors>& tensors, const DecoderShape& shape) {
  const int64_t count = shape.expert_layers();
  if (count == 0) return;
  const Dim all = Dim::whole(shape.experts), h = over_y(shape.hidden);
  const auto of_all = [&](const Dim& rows, const Dim& columns) {
    tensors.push_back({{.dims = {all, rows, columns}, .over_z = true}, count});
  };
  tensors.push_back({matrix(all, h), count});
  of_all(halves_over_x(shape, shape.expert_hidden), h);
  of_all(h, over_x(shape.expert_hidden));
  if (shape.shared_hidden == 0) return;
  add_mlp(tensors, shape, shape.shared_hidden, count, /*bias=*/false);
  tensors.push_back({vector(h), count});  // its gate
}

// Every trainable tensor in the layout of a decoder's layers: plain layers take Y to X, transposed
// ones X to Y.
std::vector<StoredTensors> tensors_of(const DecoderShape& shape) {
  const int64_t h = shape.hidden, l = shape.layers, dense = l - shape.expert_layers();
  const Dim vocabulary = Dim::padded(shape.vocabulary, Axis::x);
  std::vector<StoredTensors> tensors = {{matrix(vocabulary, over_y(h))}};
  if (shape.positions != 0) tensors.push_back({matrix(Dim::whole(shape.learned_positions()), over_y(h))});
  add_attention(tensors, shape);
  add_mlp(tensors, shape, shape.mlp(), dense, shape.mlp_bias);
  add_experts(tensors, shape);
  int64_t vectors = (shape.block_norms * l + 1) * (shape.norm_bias ? 2 : 1);
  if (shape.projection_bias) vectors += l;
  if (shape.mlp_bias) vectors += dense;
  tensors.push_back({vector(over_y(h)), vectors});
  if (!shape.tied_head) tensors.push_back({matrix(vocabulary, over_y(h))});
  return tensors;
}

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Features of the residual stream that a rank keeps of each token.
int64_t kept_features(const DecoderShape& shape, const GridShape& grid, const MemoryOptions& options) {
  return ceil_divide(shape.hidden, int64_t{grid.y} * (options.norm_rows ? grid.x : 1));
}

// Scores that a query in a block of queries sees, or computes for the others of its block: the mean
// over a sequence, or all of a window.
int64_t seen_scores(const DecoderShape& shape, int64_t block) {
  const int64_t all = (shape.sequence + block) / 2;
  return shape.windowed() == shape.layers ? std::min(all, shape.window + block) : all;
}

// Whether keys and values go round the ranks of a sequence: then no probabilities are kept.
bool is_ring(const MemoryOptions& options) { return options.context.ranks > 1 && !options.context.gathers; }

// Elements per token that attention keeps of the rows of queries that a rank attends.
int64_t kept_of_rows(const DecoderShape& shape, const GridShape& grid, const MemoryOptions& options) {
  const int64_t ranks = options.attention_rows ? grid.y : 1, heads = ceil_divide(shape.heads, grid.x);
  if (is_ring(options)) return ceil_divide(heads + (ranks > 1 ? 2 * ceil_divide(shape.attended(), grid.x) : 0), ranks);
  if (options.dropout && !options.attention_tiles) return ceil_divide(3 * shape.sequence * heads, ranks);
  if (options.attention_block > 0 && !options.dropout)
    return ceil_divide(seen_scores(shape, options.attention_block) * heads, ranks);
  return ceil_divide(heads + (ranks > 1 ? ceil_divide(shape.attended(), grid.x) : 0), ranks);
}

// Elements that one token leaves in one block for backward.
struct KeptPerToken {
  int64_t dense = 0, sparse = 0;  // with one MLP; with experts
};

KeptPerToken kept_per_token(const DecoderShape& shape, const GridShape& grid, const MemoryOptions& options) {
  const auto share_of_x = [&](int64_t size) { return ceil_divide(size, grid.x); };
  const int64_t h = kept_features(shape, grid, options);
  const int64_t each_norm = shape.norm_bias ? 2 : 1, kept_of_mlp = 1 + shape.halves();
  int64_t attention = 2 * shape.block_norms * h + each_norm * shape.block_norms;
  attention += 2 * share_of_x(shape.attended()) + 2 * share_of_x(shape.keys() * shape.features_of_head());
  if (shape.qk_norm) attention += share_of_x((shape.heads + shape.keys()) * shape.features_of_head());
  attention += options.dropout ? 2 * h : 0;
  attention += kept_of_rows(shape, grid, options);
  const int64_t experts = 2 * shape.token_experts * h + shape.experts +
                          shape.token_experts * kept_of_mlp * share_of_x(shape.expert_hidden) +
                          kept_of_mlp * share_of_x(shape.shared_hidden);
  return {.dense = attention + kept_of_mlp * share_of_x(shape.mlp()), .sparse = attention + experts};
}

// Of so many blocks, those that keep more than their input.
int64_t whole_blocks(int64_t blocks, const MemoryOptions& options) {
  return options.checkpoint_every > 0 ? blocks - ceil_divide(blocks, options.checkpoint_every) : blocks;
}

// Elements of a token's row in the mask of documents, and in the masks that blocks make of it for
// their window, which only the fused kernel keeps.
int64_t mask_elements(const DecoderShape& shape, const GridShape& grid, const MemoryOptions& options) {
  if (!options.document_mask) return 0;
  const bool kept = shape.window < shape.sequence && !options.dropout && !options.attention_tiles && !is_ring(options);
  const int64_t windowed = kept ? shape.windowed() : 0;
  const int64_t again = options.checkpoint_every > 0 && windowed > 0 ? 1 : 0;
  return shape.sequence +
         (whole_blocks(windowed, options) + again) * ceil_divide(shape.sequence, options.attention_rows ? grid.y : 1);
}

int64_t activation_elements(const DecoderShape& shape, const GridShape& grid, int64_t rows,
                            const MemoryOptions& options) {
  const KeptPerToken kept = kept_per_token(shape, grid, options);
  const int64_t h = kept_features(shape, grid, options), every = options.checkpoint_every;
  const int64_t sparse = shape.expert_layers();
  int64_t elements =
      whole_blocks(shape.layers - sparse, options) * kept.dense + whole_blocks(sparse, options) * kept.sparse;
  if (every > 0) {
    const int64_t again = sparse == shape.layers ? kept.sparse
                          : sparse == 0          ? kept.dense
                                                 : std::max(kept.dense, kept.sparse);
    elements += again + ceil_divide(shape.layers, every) * h;
  }
  elements += mask_elements(shape, grid, options);
  return rows * (elements + 2 * h + (shape.norm_bias ? 2 : 1) + (options.dropout ? h : 0));
}

// Elements of keys, values and both gradients of this rank's tokens.
int64_t keys_values(const DecoderShape& shape, const GridShape& grid, int64_t rows) {
  return 4 * ceil_divide(shape.keys() * shape.features_of_head(), grid.x) * rows;
}

// Of a block: those of all ranks' tokens, or in a ring two sums of gradients in fp32 or fp64, the
// rank's own and those that it adds next.
int64_t passed_bytes(const DecoderShape& shape, const GridShape& grid, int64_t rows, const MemoryOptions& options) {
  if (options.context.ranks == 1) return 0;
  const int64_t e = options.element_bytes;
  return keys_values(shape, grid, rows) *
         (options.context.gathers ? options.context.ranks * e : std::max<int64_t>(e, 4));
}

// Buffers that stay, for the keys and values that are here and those that come round a ring.
int64_t travelling_bytes(const DecoderShape& shape, const GridShape& grid, int64_t rows, const MemoryOptions& options) {
  return is_ring(options) ? 2 * keys_values(shape, grid, rows) * options.element_bytes : 0;
}

}  // namespace

MemoryPrediction predict_memory(const DecoderShape& shape, const GridShape& grid, const MemoryOptions& options) {
  check_decoder(shape);
  check_shape(grid, grid.ranks());
  MemoryPrediction memory = predict_stored(tensors_of(shape), grid, options);
  const int64_t e = options.element_bytes,
                rows = options.micro_batch * ceil_divide(shape.sequence, options.context.ranks);
  const int64_t over_y = ceil_divide(shape.hidden, grid.y);
  const int64_t widest = shape.expert_layers() > 0
                             ? std::max(shape.token_experts * shape.expert_hidden, shape.shared_hidden)
                             : shape.mlp();
  memory.activation_bytes =
      activation_elements(shape, grid, rows, options) * e + travelling_bytes(shape, grid, rows, options);
  memory.logits_bytes = options.logits_copies * ceil_divide(rows, options.logits_chunks) *
                        Dim::padded(shape.vocabulary, Axis::x).local_size(grid, {}) * e;
  memory.block_bytes = rows * (2 * over_y + (1 + shape.halves()) * ceil_divide(widest, grid.x)) * e +
                       passed_bytes(shape, grid, rows, options);
  return memory;
}

}  // namespace axonn
