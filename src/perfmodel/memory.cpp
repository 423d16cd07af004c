#include "axonn/perfmodel/memory.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"
#include "perfmodel/stored_tensors.hpp"

namespace axonn {
namespace {

ShardSpec matrix(Dim rows, Dim columns) { return {.dims = {std::move(rows), std::move(columns)}, .over_z = true}; }

ShardSpec vector(Dim features) { return {.dims = {std::move(features)}}; }

// Every trainable tensor, as the layers of a GPT lay it on the grid: plain layers take Y to X, transposed ones X to Y.
std::vector<StoredTensors> tensors_of(const TransformerShape& shape) {
  const int64_t h = shape.hidden, l = shape.layers;
  const Segment third = {.size = h, .axis = Axis::x};
  const Dim qkv = {{third, third, third}}, vocabulary = Dim::padded(shape.vocabulary, Axis::x);
  const auto over_x = [](int64_t size) { return Dim::split(size, Axis::x); };
  const auto over_y = [](int64_t size) { return Dim::split(size, Axis::y); };
  std::vector<StoredTensors> tensors = {
      {matrix(vocabulary, over_y(h))},   {matrix(Dim::whole(shape.sequence), over_y(h))},
      {matrix(qkv, over_y(h)), l},       {vector(qkv), l},
      {matrix(over_y(h), over_x(h)), l}, {matrix(over_x(4 * h), over_y(h)), l},
      {vector(over_x(4 * h)), l},        {matrix(over_y(h), over_x(4 * h)), l},
      {vector(over_y(h)), 6 * l + 2},  // biases of both transposed layers; weight and bias of all norms
  };
  if (!shape.tied_head) tensors.push_back({matrix(vocabulary, over_y(h))});
  return tensors;
}

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t activation_elements(const TransformerShape& shape, const GridShape& grid, int64_t rows, const MemoryOptions& options) {
  const bool dropout = options.dropout;
  const int64_t over_y = ceil_divide(shape.hidden, grid.y), over_x = ceil_divide(shape.hidden, grid.x);
  const int64_t heads = ceil_divide(shape.heads, grid.x);
  int64_t block = 4 * over_y + 12 * over_x + 4;
  if (dropout)
    block += 2 * over_y + 3 * shape.sequence * heads;
  else
    block += options.attention_block > 0 ? (shape.sequence + options.attention_block) / 2 * heads : heads;
  const int64_t checkpointed = options.checkpoint_every > 0 ? ceil_divide(shape.layers, options.checkpoint_every) : 0;
  const int64_t whole = shape.layers - checkpointed + (checkpointed > 0 ? 1 : 0);
  return rows * (whole * block + checkpointed * over_y + 2 * over_y + 2 + (dropout ? over_y : 0));
}

}  // namespace

int64_t optimizer_moments(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return 0;
    case OptimizerKind::sgd_momentum:
      return 1;
    case OptimizerKind::adamw:
      return 2;
  }
  throw InternalError("perfmodel.memory", detail::concatenate("no optimizer ", static_cast<int>(kind)));
}

int64_t MemoryPrediction::total_bytes() const {
  return weight_bytes + gradient_bytes + optimizer_bytes + gathered_bytes + activation_bytes + std::max(logits_bytes, block_bytes);
}

MemoryPrediction predict_stored(std::span<const StoredTensors> tensors, const GridShape& grid, const MemoryOptions& options) {
  AXONN_CHECK(options.micro_batch >= 1, "perfmodel.memory", "the micro-batch must be at least 1 sequence, got ", options.micro_batch);
  AXONN_CHECK(options.element_bytes >= 1, "perfmodel.memory", "an element must have at least 1 byte, got ", options.element_bytes);
  AXONN_CHECK(options.checkpoint_every >= 0 && options.gathered_blocks >= 1 && options.scattered_blocks >= 1 && options.cache_bytes >= 0,
              "perfmodel.memory", "checkpoint_every and cache_bytes must not be negative, blocks at least 1");
  const int64_t e = options.element_bytes;
  const Coordinate most = {.x = grid.x - 1, .y = grid.y - 1};  // the last part of an even split is never smaller than another

  int64_t stored = 0, largest = 0, matrices = 0;
  for (const auto& [spec, count] : tensors) {
    const int64_t range = spec.range_numel(grid, most, kRangeAlignment);
    stored += count * range;
    if (!spec.over_z) continue;
    largest = std::max(largest, range * grid.z);
    matrices += count * range * grid.z;
  }
  const int64_t g = options.gradient_bytes > 0 ? options.gradient_bytes : e, state = options.state_bytes > 0 ? options.state_bytes : e;
  return {.weight_bytes = stored * (e + (state != e ? state : 0)),
          .gradient_bytes = stored * (g + (state != g ? state : 0)),
          .optimizer_bytes = (optimizer_moments(options.optimizer) + (options.ema ? 1 : 0)) * stored * state,
          .gathered_bytes = grid.z == 1 ? 0
                                        : std::min(options.gathered_blocks * largest * e + options.cache_bytes, matrices * e) +
                                              std::min(options.scattered_blocks * largest, matrices) * g};
}

MemoryPrediction predict_memory(const TransformerShape& shape, const GridShape& grid, const MemoryOptions& options) {
  check_transformer(shape);
  check_shape(grid, grid.ranks());
  MemoryPrediction memory = predict_stored(tensors_of(shape), grid, options);
  const int64_t e = options.element_bytes, rows = options.micro_batch * shape.sequence;
  const int64_t over_y = ceil_divide(shape.hidden, grid.y), over_x = ceil_divide(shape.hidden, grid.x);
  memory.activation_bytes = activation_elements(shape, grid, rows, options) * e;
  memory.logits_bytes = 3 * rows * ceil_divide(shape.vocabulary, grid.x) * e;
  memory.block_bytes = rows * (2 * over_y + 8 * over_x) * e;
  return memory;
}

}  // namespace axonn
