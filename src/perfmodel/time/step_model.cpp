#include "axonn/perfmodel/time/step_model.hpp"

#include <algorithm>
#include <cmath>

#include "axonn/terms/overlap_portions.hpp"

namespace axonn {
namespace {

double parts_of(const LayerWork& layer, const GridShape& shape, bool sequence_norms) {
  switch (layer.split) {
    case WorkSplit::matrix:
      return (layer.whole_input ? 1.0 : shape[layer.in_axis()]) * (layer.whole_output ? 1.0 : shape[layer.out_axis()]);
    case WorkSplit::over_x:
      return shape.x;
    case WorkSplit::over_y:
      return shape.y * (sequence_norms ? shape.x : 1);
  }
  return 1;
}

// Seconds of one pass over the network, without the savings of the cache.
struct Pass {
  double forward = 0, again = 0;  // computation; again: recomputation of checkpointed blocks
  double waited = 0;              // forward all-reduces, and exchanges of norms and layout changes
  double beside_products = 0;     // time by which dI's all-reduces prolong dW's products
  double window_used = 0;         // computation that these all-reduces overlapped
  double context = 0;             // time by which keys and values of other ranks prolong attention
  double forward_used = 0;        // computation of forward that they overlapped
  double gathers = 0, gathers_again = 0, scatters = 0, data = 0;
  double data_bytes = 0, last_data = 0;  // last_data: the last message, which overlaps nothing
  CollectiveSeconds once;
};

// How often a step runs the collectives that equations 4 to 8 count once.
struct Counts {
  double gathers_backward = 0, forward_all_reduces = 1, data = 1;
};

Counts counts_of(const StepSettings& settings, bool again) {
  switch (settings.coefficients) {
    case Coefficients::paper:
      return {};
    case Coefficients::authors:
      return {.gathers_backward = 1, .forward_all_reduces = 2, .data = 2};
    case Coefficients::trainer:
      return {.gathers_backward = again ? 2.0 : 1.0, .forward_all_reduces = again ? 2.0 : 1.0};
  }
  return {};
}

// Forward and backward both wait for the exchanges.
void add_exchanges(Pass& pass, const ExchangeSeconds& one) {
  pass.waited += one.forward + one.backward;
  pass.once.all_reduce_forward += one.forward;
  pass.once.all_reduce_backward += one.backward;
}

// Keys and values of other ranks, beside attention's `seconds` or before it. Backward lasts twice
// as long.
void add_context(Pass& pass, const ExchangeSeconds& one, double seconds, bool again, double share,
                 const StepSettings& settings) {
  const double forwards = again ? 2 : 1;
  pass.once.context += forwards * one.forward + one.backward;
  if (settings.context.gathers || !settings.overlap.all_gather) {
    pass.context += forwards * one.forward + one.backward;
    return;
  }
  const auto used = [&](double computation, double moved) { return std::min(computation, moved * (1 - share)); };
  pass.context += forwards * prolongs(seconds, one.forward, share) + prolongs(2 * seconds, one.backward, share);
  pass.forward_used += used(seconds, one.forward);
  pass.window_used += (forwards - 1) * used(seconds, one.forward) + used(2 * seconds, one.backward);
}

void add_layer(Pass& pass, const LayerWork& layer, bool again, const GridShape& shape, const AxisLinks& links,
               const Machine& machine, const StepSettings& settings, double tokens) {
  const auto count = static_cast<double>(layer.count);
  const double seconds = count * layer_forward_seconds(layer, shape, machine, tokens, settings);
  pass.forward += seconds;
  if (again) pass.again += seconds;
  const bool trainer = settings.coefficients == Coefficients::trainer;
  if (!trainer && !layer.in_block) return;

  const auto bytes = static_cast<double>(element_bytes(settings.precision));
  const auto gradient =
      static_cast<double>(trainer ? state_bytes(settings.precision) : element_bytes(settings.precision));
  if (!layer.has_weight()) {
    if (!trainer) return;
    add_exchanges(pass, layer_exchanges(layer, shape, links, tokens, bytes, gradient));
    add_context(pass, context_exchange(layer, shape, settings.context_link, tokens, bytes, settings.context), seconds,
                again, machine.collective_share, settings);
    return;
  }
  const auto one = layer_collectives(layer, shape, links, tokens, bytes, gradient);
  const Counts counts = counts_of(settings, again);
  pass.waited += counts.forward_all_reduces * one.all_reduce_forward;
  if (settings.block_messages == 0) {
    pass.gathers += one.all_gather_z;
    pass.gathers_again += counts.gathers_backward * one.all_gather_z;
    pass.scatters += one.reduce_scatter_z;
  }
  pass.data += counts.data * one.all_reduce_data;
  pass.last_data = std::max(pass.last_data, one.all_reduce_data / count);
  if (layer.owns_weight) pass.data_bytes += count * layer_buffers(layer, shape, tokens).block / shape.z * gradient;
  pass.once.all_reduce_forward += counts.forward_all_reduces * one.all_reduce_forward;
  pass.once.all_reduce_backward += one.all_reduce_backward;

  if (!settings.overlap.all_reduce) {
    pass.beside_products += one.all_reduce_backward;
    return;
  }
  const double product = seconds;  // dW's is as large as forward's
  pass.beside_products += prolongs(product, one.all_reduce_backward, machine.collective_share);
  pass.window_used += std::min(product, one.all_reduce_backward * (1 - machine.collective_share));
}

void add_messages(Pass& pass, const BlockMessages& messages, const AxisLink& link, const StepSettings& settings) {
  const double gather = messages.seconds(link, static_cast<double>(element_bytes(settings.precision)));
  pass.gathers += gather;
  pass.gathers_again += counts_of(settings, messages.again).gathers_backward * gather;
  pass.scatters += messages.seconds(link, static_cast<double>(state_bytes(settings.precision)));
}

// What runs beside one pass.
struct Traffic {
  double gathers = 0, gathers_again = 0;  // weights over Z: in forward, in backward
  double data = 0;                        // gradients over data
  double updated = 0;                     // new weights over data
};

// Seconds that the traffic adds to one pass.
struct Background {
  double gather_scatter = 0, data = 0;
};

Background background(const Pass& pass, const StepSettings& settings, double share, const Traffic& traffic) {
  const OverlapSwitches& on = settings.overlap;
  Background added;
  const double forward = pass.forward - pass.forward_used, prefetched = on.all_gather ? traffic.gathers : 0;
  added.gather_scatter =
      on.all_gather ? prolongs(forward, traffic.gathers, share) : traffic.gathers + traffic.gathers_again;
  if (traffic.updated > 0)
    added.data = prolongs(forward, prefetched + traffic.updated, share) - prolongs(forward, prefetched, share);
  const double window = 2 * pass.forward + pass.again - pass.window_used;
  double beside = on.all_gather ? traffic.gathers_again : 0;
  if (on.reduce_scatter)
    beside += pass.scatters;
  else
    added.gather_scatter += pass.scatters;
  const double before_data = prolongs(window, beside, share);
  added.gather_scatter += before_data;
  added.data += on.buckets && traffic.data > 0
                    ? prolongs(window, beside + traffic.data - pass.last_data, share) - before_data + pass.last_data
                    : traffic.data;
  return added;
}

// Divides the data all-reduce into the trainer's messages (terms/overlap_portions.hpp).
double put_in_buckets(Pass& pass, const AxisLink& link, const StepSettings& settings) {
  const double messages =
      settings.overlap.buckets ? std::max<double>(kLeastBuckets, std::ceil(pass.data_bytes / kBucketBytes)) : 1;
  pass.data = messages * link.all_reduce_seconds(pass.data_bytes / messages);
  pass.last_data = pass.data / messages;
  return messages;
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
  const double parts = parts_of(layer, shape, settings.sequence_norms);
  const Precision precision = settings.precision;
  const double efficiency = layer.split == WorkSplit::matrix ? machine.gemm_efficiency : machine.attention_efficiency;
  const double product = layer.flops > 0 ? layer.flops / (machine.peak_flops(precision) * efficiency) : 0;
  const double memory = layer.elements * static_cast<double>(element_bytes(precision)) /
                        (machine.memory_bandwidth_gbps * machine.memory_efficiency * 1e9);
  return tokens / parts * (product + memory) + machine.kernel_seconds;
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
