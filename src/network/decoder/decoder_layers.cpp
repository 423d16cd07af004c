#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "axonn/network/decoder/decoder_network.hpp"

namespace axonn {
namespace {

LayerWork matrix(std::string name, int64_t k, int64_t n, bool transposed) {
  return {.name = std::move(name),
          .flops = 2.0 * static_cast<double>(k) * static_cast<double>(n),
          .k = k,
          .n = n,
          .transposed = transposed};
}

LayerWork elementwise(std::string name, WorkSplit split, double elements) {
  return {.name = std::move(name), .split = split, .elements = elements};
}

LayerWork attention(const char* name, const DecoderShape& shape, double seen) {
  const auto queries = static_cast<double>(shape.attended()), all = static_cast<double>(shape.projected());
  return {.name = name,
          .split = WorkSplit::over_x,
          .flops = 4 * seen * queries,
          .elements = all + queries,
          .queries = queries,
          .keys_values = all - queries};
}

// Appends layers of which `count` blocks have one each.
void append(LayerTable& table, int64_t count, LayerTable layers) {
  if (count == 0) return;
  for (LayerWork& layer : layers) {
    layer.in_block = true;
    layer.count = count;
  }
  std::ranges::move(layers, std::back_inserter(table));
}

void append_attention(LayerTable& table, const DecoderShape& shape) {
  const int64_t every = shape.layers;
  const auto h = static_cast<double>(shape.hidden), all = static_cast<double>(shape.projected()),
             s = static_cast<double>(shape.sequence), w = std::min(static_cast<double>(shape.window), s);
  const auto rotated = static_cast<double>((shape.heads + shape.keys()) * shape.features_of_head());
  append(table, every,
         {elementwise("norm 1", WorkSplit::over_y, 2 * h),
          matrix("qkv", shape.hidden, shape.projected(), /*transposed=*/false)});
  if (shape.qkv_bias) append(table, every, {elementwise("qkv bias", WorkSplit::over_x, 2 * all)});
  if (shape.qk_norm) append(table, every, {elementwise("norms of q and k", WorkSplit::over_x, 2 * rotated)});
  if (shape.positions == 0) append(table, every, {elementwise("rotation", WorkSplit::over_x, 2 * rotated)});
  append(table, every - shape.windowed(), {attention("attention", shape, s)});
  append(table, shape.windowed(), {attention("attention in a window", shape, w * (2 - w / s))});
  append(table, every,
         {matrix("projection", shape.attended(), shape.hidden, /*transposed=*/true),
          elementwise("residual 1", WorkSplit::over_y, 3 * h), elementwise("norm 2", WorkSplit::over_y, 2 * h)});
}

LayerTable mlp_layers(const DecoderShape& shape, int64_t mlp, const std::string& of) {
  const auto read_and_written = static_cast<double>((1 + shape.halves()) * mlp);
  return {matrix(of + "up", shape.hidden, shape.halves() * mlp, /*transposed=*/false),
          elementwise(of + (shape.gated ? "gate" : "gelu"), WorkSplit::over_x, read_and_written),
          matrix(of + "down", mlp, shape.hidden, /*transposed=*/true)};
}

LayerTable expert_layers(const DecoderShape& shape) {
  const auto h = static_cast<double>(shape.hidden), taken = static_cast<double>(shape.token_experts);
  LayerWork router = matrix("router", shape.hidden, shape.experts, /*transposed=*/false);
  router.whole_output = true;
  LayerTable one = mlp_layers(shape, shape.expert_hidden, "experts ");
  LayerWork &up = one[0], &gate = one[1], &down = one[2];
  for (LayerWork* layer : {&up, &down}) {
    layer->taps = shape.experts;
    layer->flops *= taken;
  }
  gate.elements *= taken;
  up.rows_out = down.rows_in = taken;
  return {router, elementwise("to experts", WorkSplit::over_y, 2 * taken * h),    up, gate,
          down,   elementwise("from experts", WorkSplit::over_y, (taken + 1) * h)};
}

LayerTable blocks_of(const DecoderShape& shape) {
  const auto h = static_cast<double>(shape.hidden);
  const int64_t sparse = shape.expert_layers();
  LayerTable table;
  append_attention(table, shape);
  append(table, shape.layers - sparse, mlp_layers(shape, shape.mlp(), ""));
  if (sparse > 0) append(table, sparse, expert_layers(shape));
  if (sparse > 0 && shape.shared_hidden > 0) append(table, sparse, mlp_layers(shape, shape.shared_hidden, "shared "));
  const auto others = static_cast<double>(shape.block_norms - 2);
  if (others > 0) append(table, shape.layers, {elementwise("other norms", WorkSplit::over_y, others * 2 * h)});
  append(table, shape.layers, {elementwise("residual 2", WorkSplit::over_y, 3 * h)});
  return table;
}

}  // namespace

LayerTable layer_table(const DecoderShape& shape) {
  check_decoder(shape);
  LayerWork embedding = matrix("embedding", shape.vocabulary, shape.hidden, /*transposed=*/true);
  embedding.flops = 0;  // a lookup
  embedding.gives_input_gradient = false;
  LayerWork head = matrix("head", shape.hidden, shape.vocabulary, /*transposed=*/false);
  head.owns_weight = !shape.tied_head;
  LayerTable table = {embedding};
  std::ranges::move(blocks_of(shape), std::back_inserter(table));
  table.push_back(elementwise("last norm", WorkSplit::over_y, 2 * static_cast<double>(shape.hidden)));
  table.push_back(head);
  table.push_back(elementwise("loss", WorkSplit::over_x, 4 * static_cast<double>(shape.vocabulary)));
  return table;
}

}  // namespace axonn
