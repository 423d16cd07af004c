#pragma once

#include <cstdint>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/layer_table.hpp"
#include "axonn/perfmodel/machine/machine.hpp"
#include "axonn/perfmodel/time/ring_model.hpp"
#include "axonn/terms/overlap_switches.hpp"

// Seconds of a training step: computation, and the communication that is not hidden beside it.
namespace axonn {

struct StepSettings {
  double batch_tokens = 0;    // of a step, over the whole grid
  int64_t micro_batches = 1;  // forwards of a rank in a step
  bool checkpoint = true;     // blocks run forward again in backward
  Precision precision = Precision::bf16;
  OverlapSwitches overlap;
  Coefficients coefficients = Coefficients::trainer;
  double cached = 0;  // share of the gathered weights that stay from their first use on
  int moments = 2;    // of the optimizer

  bool caches() const { return overlap.cache && coefficients == Coefficients::trainer; }
};

// All seconds of one rank, which is any: work is divided evenly.
struct StepTime {
  double forward = 0;   // computation
  double backward = 0;  // with what checkpointing runs again
  double optimizer = 0;
  CollectiveSeconds communication;  // of the step, hidden or not
  double data_messages = 0;         // all-reduces over data; 0: one a layer (coefficients paper and authors)
  // Seconds by which communication prolongs the step: not hidden, and what computation loses while a collective takes part of the GPU.
  double exposed_all_reduce = 0;
  double exposed_gather_scatter = 0;
  double exposed_data = 0;

  double compute() const { return forward + backward + optimizer; }
  double exposed() const { return exposed_all_reduce + exposed_gather_scatter + exposed_data; }
  double seconds() const { return compute() + exposed(); }
};

// How much `communication` prolongs `computation` when both start together and it takes `share` of the compute units while it runs:
// c C_m while it ends first, C_m - C_p when it does not.
double prolongs(double computation, double communication, double share);

// Forward seconds of one occurrence of a layer on `tokens` rows of a rank.
double layer_forward_seconds(const LayerWork& layer, const GridShape& shape, const Machine& machine, double tokens, Precision precision);

// In a pass of one micro-batch (coefficients paper and authors: of the whole step at once), by the switches:
//   forward    gathers beside all of it; the forward all-reduces are waited for
//   backward   checkpointed blocks again, with their all-reduces; dI's all-reduce beside dW's product; gathers and reduce-scatters beside
//              what is left of it; in the last pass data all-reduces too, but for the last bucket's (paper, authors: one layer's)
// Coefficients trainer: a gather in forward and one in backward (two with checkpointing), of which the cached share happens once in a step
// alone; reduce-scatters in every pass; data all-reduces in buckets of the arena; what group norms and changes of layout exchange is waited
// for, and counted with the all-reduces. Left out: latencies of kernels, and what layer norms and the loss sum (bytes a row).
StepTime predict_step(const LayerTable& table, const GridShape& shape, const AxisLinks& links, const Machine& machine,
                      const StepSettings& settings);

// Of a step, what is run again included: forward once, backward twice as much, checkpointed blocks once more.
double hardware_flops_per_token(const LayerTable& table, bool checkpoint);

}  // namespace axonn
