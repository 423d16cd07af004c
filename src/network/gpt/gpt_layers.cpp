#include "axonn/network/gpt/gpt_layers.hpp"

namespace axonn {
namespace {

LayerWork matrix(const char* name, int64_t k, int64_t n, bool transposed) {
  return {.name = name,
          .flops = 2.0 * static_cast<double>(k) * static_cast<double>(n),
          .k = k,
          .n = n,
          .transposed = transposed};
}

LayerWork elementwise(const char* name, WorkSplit split, double elements) {
  return {.name = name, .split = split, .elements = elements};
}

}  // namespace

LayerTable layer_table(const GptShape& shape) {
  check_gpt(shape);
  const int64_t hidden = shape.hidden, mlp = shape.mlp(), vocabulary = shape.vocabulary;
  const double h = static_cast<double>(hidden), s = static_cast<double>(shape.sequence),
               v = static_cast<double>(vocabulary);

  LayerWork embedding = matrix("embedding", vocabulary, hidden, /*transposed=*/true);
  embedding.flops = 0;  // a lookup
  embedding.gives_input_gradient = false;
  LayerWork head = matrix("head", hidden, vocabulary, /*transposed=*/false);
  head.owns_weight = !shape.tied_head;

  LayerTable block = {
      elementwise("norm 1", WorkSplit::over_y, 2 * h),
      matrix("qkv", hidden, 3 * hidden, /*transposed=*/false),
      elementwise("qkv bias", WorkSplit::over_x, 6 * h),
      {.name = "attention", .split = WorkSplit::over_x, .flops = 4 * s * h, .elements = 4 * h},
      matrix("projection", hidden, hidden, /*transposed=*/true),
      elementwise("residual 1", WorkSplit::over_y, 3 * h),
      elementwise("norm 2", WorkSplit::over_y, 2 * h),
      matrix("up", hidden, mlp, /*transposed=*/false),
      elementwise("gelu", WorkSplit::over_x, 2 * static_cast<double>(mlp)),
      matrix("down", mlp, hidden, /*transposed=*/true),
      elementwise("residual 2", WorkSplit::over_y, 3 * h),
  };
  for (LayerWork& layer : block) {
    layer.in_block = true;
    layer.count = shape.layers;
  }
  LayerTable table = {embedding};
  table.insert(table.end(), block.begin(), block.end());
  table.push_back(elementwise("last norm", WorkSplit::over_y, 2 * h));
  table.push_back(head);
  table.push_back(elementwise("loss", WorkSplit::over_x, 4 * v));
  return table;
}

}  // namespace axonn
