#pragma once

#include "axonn/perfmodel/time/step_model.hpp"

namespace axonn {

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

// Adds a layer of `tokens` rows; `again`: it runs again in backward.
void add_layer(Pass& pass, const LayerWork& layer, bool again, const GridShape& shape, const AxisLinks& links,
               const Machine& machine, const StepSettings& settings, double tokens);
// Adds weights that move over Z together.
void add_messages(Pass& pass, const BlockMessages& messages, const AxisLink& link, const StepSettings& settings);
// Divides the data all-reduce into the trainer's messages (terms/overlap_portions.hpp). Returns
// their number.
double put_in_buckets(Pass& pass, const AxisLink& link, const StepSettings& settings);

// The communication that runs beside one pass.
struct Traffic {
  double gathers = 0, gathers_again = 0;  // weights over Z: in forward, in backward
  double data = 0;                        // gradients over data
  double updated = 0;                     // new weights over data
};

// Seconds that the traffic adds to one pass.
struct Background {
  double gather_scatter = 0, data = 0;
};

Background background(const Pass& pass, const StepSettings& settings, double share, const Traffic& traffic);

}  // namespace axonn
