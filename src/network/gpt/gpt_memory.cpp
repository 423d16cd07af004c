#include "axonn/network/gpt/gpt_memory.hpp"

#include <utility>
#include <vector>

namespace axonn {
namespace {

ShardSpec matrix(Dim rows, Dim columns) { return {.dims = {std::move(rows), std::move(columns)}, .over_z = true}; }

ShardSpec vector(Dim features) { return {.dims = {std::move(features)}}; }

// Every trainable tensor in the layout of a GPT's layers: plain layers take Y to X, transposed ones
// X to Y.
std::vector<StoredTensors> tensors_of(const GptShape& shape) {
  const int64_t h = shape.hidden, m = shape.mlp(), l = shape.layers;
  const Segment third = {.size = h, .axis = Axis::x};
  const Dim qkv = {{third, third, third}}, vocabulary = Dim::padded(shape.vocabulary, Axis::x);
  const auto over_x = [](int64_t size) { return Dim::split(size, Axis::x); };
  const auto over_y = [](int64_t size) { return Dim::split(size, Axis::y); };
  std::vector<StoredTensors> tensors = {
      {matrix(vocabulary, over_y(h))},
      {matrix(Dim::whole(shape.sequence), over_y(h))},
      {matrix(qkv, over_y(h)), l},
      {vector(qkv), l},
      {matrix(over_y(h), over_x(h)), l},
      {matrix(over_x(m), over_y(h)), l},
      {vector(over_x(m)), l},
      {matrix(over_y(h), over_x(m)), l},
      {vector(over_y(h)), 6 * l + 2},  // biases of both transposed layers; weight and bias of all norms
  };
  if (!shape.tied_head) tensors.push_back({matrix(vocabulary, over_y(h))});
  return tensors;
}

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t activation_elements(const GptShape& shape, const GridShape& grid, int64_t rows, const MemoryOptions& options) {
  const bool dropout = options.dropout;
  const int64_t over_y = ceil_divide(shape.hidden, grid.y), over_x = ceil_divide(shape.hidden, grid.x);
  const int64_t mlp = ceil_divide(shape.mlp(), grid.x), heads = ceil_divide(shape.heads, grid.x);
  int64_t block = 4 * over_y + 4 * over_x + 2 * mlp + 4;
  if (dropout)
    block += 2 * over_y + 3 * shape.sequence * heads;
  else
    block += options.attention_block > 0 ? (shape.sequence + options.attention_block) / 2 * heads : heads;
  const int64_t checkpointed = options.checkpoint_every > 0 ? ceil_divide(shape.layers, options.checkpoint_every) : 0;
  const int64_t whole = shape.layers - checkpointed + (checkpointed > 0 ? 1 : 0);
  return rows * (whole * block + checkpointed * over_y + 2 * over_y + 2 + (dropout ? over_y : 0));
}

}  // namespace

MemoryPrediction predict_memory(const GptShape& shape, const GridShape& grid, const MemoryOptions& options) {
  check_gpt(shape);
  check_shape(grid, grid.ranks());
  MemoryPrediction memory = predict_stored(tensors_of(shape), grid, options);
  const int64_t e = options.element_bytes, rows = options.micro_batch * shape.sequence;
  const int64_t over_y = ceil_divide(shape.hidden, grid.y), mlp = ceil_divide(shape.mlp(), grid.x);
  memory.activation_bytes = activation_elements(shape, grid, rows, options) * e;
  memory.logits_bytes = 3 * rows * ceil_divide(shape.vocabulary, grid.x) * e;
  memory.block_bytes = rows * (2 * over_y + 2 * mlp) * e;
  return memory;
}

}  // namespace axonn
