#include "perfmodel/time/pass_model.hpp"

#include <algorithm>
#include <cmath>

#include "axonn/terms/overlap_portions.hpp"

namespace axonn {
namespace {

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
  if (settings.context.gathers || !settings.overlap.all_reduce) {
    pass.context += forwards * one.forward + one.backward;
    return;
  }
  const auto used = [&](double computation, double moved) { return std::min(computation, moved * (1 - share)); };
  pass.context += forwards * prolongs(seconds, one.forward, share) + prolongs(2 * seconds, one.backward, share);
  pass.forward_used += used(seconds, one.forward);
  pass.window_used += (forwards - 1) * used(seconds, one.forward) + used(2 * seconds, one.backward);
}

// dI's sum beside the product of dW, which takes `seconds`, as dI's does. If the layer reads a
// stream with divided rows, that is a reduce-scatter. Then the other half of the sum, a gather, is
// waited for when the layer before begins, and the gather of the input runs beside dI's product.
void add_gradient_sums(Pass& pass, double seconds, double sum, double stream_gather, const StepSettings& settings,
                       double share) {
  const double half = stream_gather > 0 ? sum / 2 : 0;
  pass.once.all_reduce_backward += sum + stream_gather;
  pass.waited += half;
  for (const double beside : {sum - half, stream_gather}) {
    pass.beside_products += settings.overlap.all_reduce ? prolongs(seconds, beside, share) : beside;
    if (settings.overlap.all_reduce) pass.window_used += std::min(seconds, beside * (1 - share));
  }
}

}  // namespace

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
    if (settings.attention_rows) {
      ExchangeSeconds rows = rows_exchange(layer, shape, links, tokens, bytes);
      if (again) rows.forward *= 2;
      add_exchanges(pass, rows);
    }
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
  const double stream = trainer && settings.norm_rows ? stream_gather_seconds(layer, shape, links, tokens, bytes) : 0;
  add_gradient_sums(pass, seconds, one.all_reduce_backward, stream, settings, machine.collective_share);
}

void add_messages(Pass& pass, const BlockMessages& messages, const AxisLink& link, const StepSettings& settings) {
  const double gather = messages.seconds(link, static_cast<double>(element_bytes(settings.precision)));
  pass.gathers += gather;
  pass.gathers_again += counts_of(settings, messages.again).gathers_backward * gather;
  pass.scatters += messages.seconds(link, static_cast<double>(state_bytes(settings.precision)));
}

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

double put_in_buckets(Pass& pass, const AxisLink& link, const StepSettings& settings) {
  const double messages =
      settings.overlap.buckets ? std::max<double>(kLeastBuckets, std::ceil(pass.data_bytes / kBucketBytes)) : 1;
  pass.data = messages * link.all_reduce_seconds(pass.data_bytes / messages);
  pass.last_data = pass.data / messages;
  return messages;
}

}  // namespace axonn
