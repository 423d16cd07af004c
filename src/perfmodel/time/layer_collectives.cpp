// Collectives of layers, in seconds of the links of ring_model.cpp.
#include "axonn/core/error.hpp"
#include "axonn/perfmodel/time/ring_model.hpp"

namespace axonn {

LayerBuffers layer_buffers(const LayerWork& layer, const GridShape& shape, double units) {
  const double gin = layer.whole_input ? 1 : shape[layer.in_axis()],
               gout = layer.whole_output ? 1 : shape[layer.out_axis()];
  return {.block = layer.weights() / (gin * gout),
          .output = units * layer.rows_out * static_cast<double>(layer.n) / gout,
          .input = units * layer.rows_in * static_cast<double>(layer.k) / gin};
}

CollectiveSeconds layer_collectives(const LayerWork& layer, const GridShape& shape, const AxisLinks& links,
                                    double units, double element_bytes, double gradient_bytes) {
  if (!layer.has_weight()) return {};
  const double count = static_cast<double>(layer.count);
  const auto [block, output, input] = layer_buffers(layer, shape, units);
  CollectiveSeconds seconds;
  if (layer.owns_weight) {
    seconds.all_gather_z = count * link_of(links, Axis::z).gather_seconds(block * element_bytes);
    seconds.reduce_scatter_z = count * link_of(links, Axis::z).gather_seconds(block * gradient_bytes);
    seconds.all_reduce_data = count * link_of(links, Axis::data).all_reduce_seconds(block / shape.z * gradient_bytes);
  }
  if (!layer.whole_input)
    seconds.all_reduce_forward = count * link_of(links, layer.in_axis()).all_reduce_seconds(output * element_bytes);
  if (layer.gives_input_gradient && !layer.whole_output)
    seconds.all_reduce_backward = count * link_of(links, layer.out_axis()).all_reduce_seconds(input * element_bytes);
  return seconds;
}

bool splits_a_group(const LayerWork& norm, const GridShape& shape) {
  if (norm.norm_groups == 0) return false;
  const int64_t size = shape[norm.split_axis()];
  if (size == 1) return false;
  int64_t channels = 0, begin = 0;
  for (const int64_t segment : norm.segments) channels += segment;
  const int64_t group = channels / norm.norm_groups;
  for (const int64_t segment : norm.segments) {
    for (int64_t i = 0; i < size; ++i)
      if ((begin + segment * i / size) % group != 0) return true;
    begin += segment;
  }
  return false;
}

ExchangeSeconds layer_exchanges(const LayerWork& layer, const GridShape& shape, const AxisLinks& links, double units,
                                double element_bytes, double statistic_bytes) {
  const double count = static_cast<double>(layer.count);
  ExchangeSeconds seconds;
  if (layer.moved > 0) {
    const double bytes = units * layer.moved * element_bytes;
    seconds.forward = count * link_of(links, layer.split_axis()).gather_seconds(bytes);
    seconds.backward = count * link_of(links, other_tensor_axis(layer.split_axis())).gather_seconds(bytes);
  }
  if (splits_a_group(layer, shape)) {
    double channels = 0;
    for (const int64_t segment : layer.segments) channels += static_cast<double>(segment);
    const AxisLink& link = link_of(links, layer.split_axis());
    seconds.forward += count * link.gather_seconds(2 * units * channels * statistic_bytes);
    seconds.backward +=
        count * link.all_reduce_seconds(2 * units * static_cast<double>(layer.norm_groups) * statistic_bytes);
  }
  return seconds;
}

ExchangeSeconds context_exchange(const LayerWork& layer, const GridShape& shape, const AxisLink& link, double units,
                                 double element_bytes, const ContextSplit& context) {
  const double ranks = static_cast<double>(context.ranks), x = shape.x;
  if (context.ranks == 1 || layer.keys_values == 0) return {};
  const double once =
      static_cast<double>(layer.count) * link.gather_seconds(ranks * units * layer.keys_values / x * element_bytes);
  return {.forward = once, .backward = 2 * once};
}

ExchangeSeconds rows_exchange(const LayerWork& layer, const GridShape& shape, const AxisLinks& links, double units,
                              double element_bytes) {
  const Axis axis = other_tensor_axis(layer.split_axis());
  if (layer.queries == 0 || shape[axis] == 1) return {};
  const AxisLink& link = link_of(links, axis);
  const double count = static_cast<double>(layer.count), bytes = units / shape[layer.split_axis()] * element_bytes,
               gathered = 2 * link.gather_seconds(bytes * layer.queries / 2);
  return {.forward = count * gathered,
          .backward = count * (gathered + link.all_reduce_seconds(bytes * layer.keys_values))};
}

double stream_gather_seconds(const LayerWork& layer, const GridShape& shape, const AxisLinks& links, double units,
                             double element_bytes) {
  if (!layer.has_weight() || layer.transposed) return 0;
  return static_cast<double>(layer.count) *
         link_of(links, Axis::x).gather_seconds(layer_buffers(layer, shape, units).input * element_bytes);
}

CollectiveSeconds published_collectives(const LayerTable& table, const GridShape& shape, const AxisLinks& links,
                                        double batch_tokens, double element_bytes, Coefficients coefficients) {
  AXONN_ASSERT(coefficients != Coefficients::trainer, "the trainer's counts follow from its settings");
  const double twice = coefficients == Coefficients::authors ? 2 : 1;
  const double tokens = batch_tokens / (static_cast<double>(shape.z) * shape.data);
  CollectiveSeconds sum;
  for (const LayerWork& layer : table) {
    if (!layer.in_block) continue;
    const auto once = layer_collectives(layer, shape, links, tokens, element_bytes, element_bytes);
    sum.all_gather_z += twice * once.all_gather_z;
    sum.reduce_scatter_z += once.reduce_scatter_z;
    sum.all_reduce_forward += twice * once.all_reduce_forward;
    sum.all_reduce_backward += once.all_reduce_backward;
    sum.all_reduce_data += twice * once.all_reduce_data;
  }
  return sum;
}

}  // namespace axonn
