#pragma once

#include <cstdint>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/layer_table.hpp"
#include "axonn/perfmodel/machine/machine.hpp"
#include "axonn/perfmodel/time/ring_model.hpp"
#include "axonn/terms/overlap_switches.hpp"

// Seconds of a training step: computation, and the communication that computation does not hide.
namespace axonn {

// The part of a block that runs forward again in backward (activation checkpointing).
enum class Recomputation : uint8_t {
  none,
  attention,  // scores and their product with the values: selective recomputation (Korthikanti et al., 2022)
  // Up to the last tensor that backward needs, so not the block's last product: PyTorch's
  // checkpoint() without reentrancy.
  stopped,
  blocks,  // everything, as this trainer does
};

struct StepSettings {
  double batch_tokens = 0;    // tokens per step over the whole grid
  int64_t micro_batches = 1;  // forward passes per rank per step
  Recomputation recompute = Recomputation::blocks;
  bool attention_rows = false;  // rows of queries divided over the tensor axis that does not split the heads
  bool norm_rows = false;       // norms and residual sums divided over X too, by rows (sequence parallelism)
  // 0: weights move over Z one by one, as those of this trainer's layers. Else the number of blocks
  // of the table: a block's weights move in one message, all those outside of blocks in another, as
  // units of FSDP do. For coefficients trainer.
  int64_t block_messages = 0;
  // The replicas divide the update (schedules rs-opt-ag and fuse): gradients are reduce-scattered
  // over data, and the new weights gathered under the next forward pass; else one all-reduce.
  bool divided_update = false;
  bool divided_gradients = false;  // the same, and every pass scatters its gradients (ZeRO-2)
  Precision precision = Precision::bf16;
  OverlapSwitches overlap;
  Coefficients coefficients = Coefficients::trainer;
  double cached = 0;         // share of the gathered weights that stay in memory after their first use
  int moments = 2;           // moments of the optimizer
  int64_t moment_bytes = 0;  // per element of them; 0: as masters
  // Pipeline of other programs (1F1B; virtual_stages > 1: interleaved), outside of the grid. The
  // table is one stage's.
  int64_t stages = 1, virtual_stages = 1;
  ContextSplit context = {};
  AxisLink context_link = {};  // the ring over its ranks

  bool caches() const { return overlap.cache && coefficients == Coefficients::trainer; }
};

// Seconds of any one rank: the work is divided evenly.
struct StepTime {
  double forward = 0;   // computation
  double backward = 0;  // includes recomputation by checkpointing
  double optimizer = 0;
  CollectiveSeconds communication;  // whole step, hidden or not
  double data_messages = 0;         // all-reduces over data; 0: one per layer (coefficients paper and authors)
  // Seconds by which communication prolongs the step: the part that is not hidden, and the
  // computation time lost while a collective occupies part of the GPU.
  double exposed_all_reduce = 0;
  double exposed_gather_scatter = 0;
  double exposed_data = 0;
  double exposed_context = 0;  // keys and values of other ranks, if sequences are divided
  double bubble = 0;           // in a pipeline: waiting for the first micro-batch and after the last one

  double compute() const { return forward + backward + optimizer; }
  double exposed() const { return exposed_all_reduce + exposed_gather_scatter + exposed_data + exposed_context; }
  double seconds() const { return compute() + exposed() + bubble; }
};

// By how much `communication` (C_m) prolongs `computation` (C_p) when both start together and the
// communication occupies a `share` (c) of the compute units: c C_m if it ends first, else
// C_m - C_p.
double prolongs(double computation, double communication, double share);

// Forward seconds of one occurrence of a layer on a rank with `tokens` rows: product and elements,
// and the time that the machine's kernels take to start.
double layer_forward_seconds(const LayerWork& layer, const GridShape& shape, const Machine& machine, double tokens,
                             const StepSettings& settings);

// Weights that move over Z together, with StepSettings::block_messages.
struct BlockMessages {
  int64_t count = 0;    // equal messages
  double elements = 0;  // weights in each of them, on an (X, Y) position
  bool again = false;   // these layers run again in backward

  // All are gathered once, or reduce-scattered.
  double seconds(const AxisLink& link, double element_bytes) const {
    return static_cast<double>(count) * link.gather_seconds(elements * element_bytes);
  }
};
struct MessagesOverZ {
  BlockMessages blocks, others;
};
MessagesOverZ messages_over_z(const LayerTable& table, const GridShape& shape, const StepSettings& settings);

// Whether the layer `at` of the table runs again in backward.
bool runs_again(const LayerTable& table, size_t at, Recomputation recompute);

// A pass handles one micro-batch; with coefficients paper and authors, the whole step. With all
// switches on, a pass overlaps as follows:
//   forward    All-gathers overlap all of it. Forward all-reduces are waited for.
//   backward   Checkpointed blocks run forward again, with their all-reduces. dI's all-reduce
//              overlaps dW's product. All-gathers and reduce-scatters overlap the rest. In the
//              last pass data all-reduces overlap it too, except the last bucket's (paper,
//              authors: one layer's).
// Coefficients trainer: a weight is gathered once in forward and once in backward (twice with
// checkpointing); the cached share is gathered once per step. Every pass has reduce-scatters. Each
// weight is a message, or each block (block_messages). Data all-reduces run in buckets of the
// arena. The exchanges of group norms, layout changes and divided rows of queries are waited for
// and counted with the all-reduces. With divided rows of the residual stream, all-reduces over X
// are a reduce-scatter and a gather: in backward dW's product hides the former only. The gather of
// a layer's input, once more in backward, overlaps dI's product. With a divided update, half of the
// data all-reduces overlap the first pass's forward instead of backward. With a divided context,
// keys and values that pass around its ranks overlap attention; gathered ones are waited for. Left
// out: the sums of layer norms and loss (a few bytes per row).
StepTime predict_step(const LayerTable& table, const GridShape& shape, const AxisLinks& links, const Machine& machine,
                      const StepSettings& settings);

// FLOPs per token of a step: forward once, backward twice as much, and what runs forward again.
double hardware_flops_per_token(const LayerTable& table, Recomputation recompute);

}  // namespace axonn
