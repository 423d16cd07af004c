#include "axonn/perfmodel/time/step_model.hpp"

#include <algorithm>

#include "perfmodel/time/pass_model.hpp"

namespace axonn {
namespace {

double parts_of(const LayerWork& layer, const GridShape& shape, bool norm_rows) {
  switch (layer.split) {
    case WorkSplit::matrix:
      return (layer.whole_input ? 1.0 : shape[layer.in_axis()]) * (layer.whole_output ? 1.0 : shape[layer.out_axis()]);
    case WorkSplit::over_x:
      return shape.x;
    case WorkSplit::over_y:
      return shape.y * (norm_rows ? shape.x : 1);
  }
  return 1;
}

double optimizer_seconds(const LayerTable& table, const GridShape& shape, const Machine& machine,
                         const StepSettings& settings) {
  double weights = 0;
  for (const LayerWork& layer : table)
    if (layer.owns_weight && layer.has_weight())
      weights += static_cast<double>(layer.count) * layer_buffers(layer, shape, 0).block;
  weights /= shape.z * (settings.divided_update || settings.divided_gradients ? shape.data : 1);
  const auto state = static_cast<double>(state_bytes(settings.precision)),
             element = static_cast<double>(element_bytes(settings.precision)),
             moment = settings.moment_bytes > 0 ? static_cast<double>(settings.moment_bytes) : state;
  // Reads the gradient; reads and writes master and moments; writes the weights if of another type.
  const double bytes = state * (1 + 2) + 2 * settings.moments * moment + (element != state ? element : 0);
  return weights * bytes / (machine.memory_bandwidth_gbps * machine.memory_efficiency * 1e9);
}

}  // namespace

double prolongs(double computation, double communication, double share) {
  return std::max(share * communication, communication - computation);
}

double layer_forward_seconds(const LayerWork& layer, const GridShape& shape, const Machine& machine, double tokens,
                             const StepSettings& settings) {
  const double parts = parts_of(layer, shape, settings.norm_rows);
  const Precision precision = settings.precision;
  const double efficiency = layer.split == WorkSplit::matrix ? machine.gemm_efficiency : machine.attention_efficiency;
  const double product = layer.flops > 0 ? layer.flops / (machine.peak_flops(precision) * efficiency) : 0;
  const double memory = layer.elements * static_cast<double>(element_bytes(precision)) /
                        (machine.memory_bandwidth_gbps * machine.memory_efficiency * 1e9);
  const bool rows = settings.attention_rows && layer.queries > 0;  // all of them still pass through memory
  const double divided = rows ? product / shape[other_tensor_axis(layer.split_axis())] : product;
  return tokens / parts * (divided + memory) + machine.kernel_seconds;
}

bool runs_again(const LayerTable& table, size_t at, Recomputation recompute) {
  const LayerWork& layer = table[at];
  if (!layer.in_block) return false;
  switch (recompute) {
    case Recomputation::none:
      return false;
    case Recomputation::attention:
      return layer.flops > 0 && !layer.has_weight();
    case Recomputation::stopped:
      return std::any_of(table.begin() + static_cast<std::ptrdiff_t>(at) + 1, table.end(),
                         [](const LayerWork& later) { return later.in_block && later.has_weight(); });
    case Recomputation::blocks:
      return true;
  }
  return false;
}

MessagesOverZ messages_over_z(const LayerTable& table, const GridShape& shape, const StepSettings& settings) {
  MessagesOverZ all;
  for (size_t i = 0; i < table.size(); ++i) {
    const LayerWork& layer = table[i];
    if (!layer.has_weight() || !layer.owns_weight) continue;
    BlockMessages& messages = layer.in_block ? all.blocks : all.others;
    messages.count = layer.in_block ? settings.block_messages : 1;
    messages.elements += static_cast<double>(layer.count) * layer_buffers(layer, shape, 0).block;
    messages.again = messages.again || runs_again(table, i, settings.recompute);
  }
  if (all.blocks.count > 0) all.blocks.elements /= static_cast<double>(all.blocks.count);
  return all;
}

StepTime predict_step(const LayerTable& table, const GridShape& shape, const AxisLinks& links, const Machine& machine,
                      const StepSettings& settings) {
  const bool trainer = settings.coefficients == Coefficients::trainer;
  const double passes = trainer ? static_cast<double>(settings.micro_batches) : 1;
  const double tokens = settings.batch_tokens / (static_cast<double>(shape.z) * shape.data) / passes;
  Pass pass;
  for (size_t i = 0; i < table.size(); ++i)
    add_layer(pass, table[i], runs_again(table, i, settings.recompute), shape, links, machine, settings, tokens);
  if (settings.block_messages > 0) {
    const MessagesOverZ over_z = messages_over_z(table, shape, settings);
    for (const BlockMessages& messages : {over_z.blocks, over_z.others})
      add_messages(pass, messages, link_of(links, Axis::z), settings);
  }
  double messages = trainer && shape.data > 1 ? put_in_buckets(pass, link_of(links, Axis::data), settings) : 0;
  const double updated = settings.divided_update || settings.divided_gradients ? pass.data / 2 : 0;
  if (updated > 0) pass.last_data /= 2;
  const double gradients = (pass.data - updated) * (settings.divided_gradients ? passes : 1);
  if (settings.divided_gradients) messages *= (passes + 1) / 2;

  const double share = machine.collective_share;
  const double missed = settings.caches() ? 1 - settings.cached : 1;  // share that is gathered every time
  const double again = pass.gathers_again * missed, warm = pass.gathers * missed;
  Traffic in_first = {.gathers = pass.gathers, .gathers_again = again, .updated = updated},
          in_last = {.gathers = warm, .gathers_again = again, .data = gradients};
  if (passes == 1) in_last.gathers = pass.gathers, in_last.updated = updated;
  const Background first = background(pass, settings, share, in_first),
                   last = background(pass, settings, share, in_last),
                   middle = background(pass, settings, share, {.gathers = warm, .gathers_again = again});

  StepTime time = {.forward = passes * pass.forward,
                   .backward = passes * (2 * pass.forward + pass.again),
                   .optimizer = optimizer_seconds(table, shape, machine, settings)};
  time.communication = {.all_gather_z = pass.gathers + (passes - 1) * warm + passes * again,
                        .reduce_scatter_z = passes * pass.scatters,
                        .all_reduce_forward = passes * pass.once.all_reduce_forward,
                        .all_reduce_backward = passes * pass.once.all_reduce_backward,
                        .all_reduce_data = gradients + updated,
                        .context = passes * pass.once.context};
  time.data_messages = messages;
  time.exposed_all_reduce = passes * (pass.waited + pass.beside_products);
  time.exposed_gather_scatter = last.gather_scatter;
  if (passes > 1) time.exposed_gather_scatter += first.gather_scatter + (passes - 2) * middle.gather_scatter;
  time.exposed_data = last.data + (passes > 1 ? first.data : 0);
  time.exposed_context = passes * pass.context;
  // (p - 1) / (v n) of the micro-batches' own time (Narayanan et al., 2021, section 2.2).
  time.bubble =
      static_cast<double>(settings.stages - 1) / (static_cast<double>(settings.virtual_stages) * passes) *
      (time.forward + time.backward + time.exposed_all_reduce + time.exposed_gather_scatter + time.exposed_context);
  return time;
}

double hardware_flops_per_token(const LayerTable& table, Recomputation recompute) {
  double flops = 0;
  for (size_t i = 0; i < table.size(); ++i)
    flops += static_cast<double>(table[i].count) * table[i].flops * (runs_again(table, i, recompute) ? 4 : 3);
  return flops;
}

}  // namespace axonn
