#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "axonn/core/names.hpp"
#include "axonn/network/network_model.hpp"
#include "axonn/perfmodel/time/step_model.hpp"
#include "axonn/terms/attention_rows.hpp"
#include "axonn/terms/forward_schedule.hpp"
#include "axonn/terms/norm_rows.hpp"
#include "axonn/terms/overlap_portions.hpp"

namespace axonn {

enum class Objective : uint8_t {
  time,           // seconds of a step
  communication,  // seconds of all collectives, hidden or not: the paper's objective
  memory,         // bytes per GPU
  cost,           // dollars per step
};
template <>
struct Names<Objective> {
  static constexpr Named<Objective> all[] = {{"time", Objective::time},
                                             {"communication", Objective::communication},
                                             {"memory", Objective::memory},
                                             {"cost", Objective::cost}};
};

// automatic: the better of on and off, which are what this trainer can do. The others are for what
// other programs do.
enum class Checkpointing : uint8_t { automatic, on, off, selective, stopped };
template <>
struct Names<Checkpointing> {
  static constexpr Named<Checkpointing> all[] = {{"auto", Checkpointing::automatic},
                                                 {"on", Checkpointing::on},
                                                 {"off", Checkpointing::off},
                                                 {"selective", Checkpointing::selective},
                                                 {"stopped", Checkpointing::stopped}};
};

inline constexpr int64_t kMostGpus = 1 << 20;

struct SearchOptions {
  int64_t gpus = 0;
  int64_t batch_tokens = int64_t{4} << 20;
  BandwidthMode mode = BandwidthMode::exact;
  Coefficients coefficients = Coefficients::trainer;
  Objective objective = Objective::time;
  std::optional<AxisOrder> order;  // nothing: every placement in mode exact, X Y Z data in other modes
  GridShape fixed = {0, 0, 0, 0};  // required sizes of the axes; 0: any
  int64_t min_tensor = 1, max_tensor = std::numeric_limits<int64_t>::max();  // bounds of x * y * z
  std::vector<Precision> precisions = {Precision::bf16};
  Checkpointing checkpointing = Checkpointing::automatic;
  AttentionRows attention_rows = AttentionRows::off;  // automatic: the better of on and off
  NormRows norm_rows = NormRows::off;                 // the same; on is for a network that divides_norms
  int64_t micro_batch = 0;                            // sequences; 0: tries every divisor of a rank's share up to 1024
  bool multi_level = true;                            // mode exact: collectives may run level by level
  bool divided_gradients = false;                     // as in StepSettings; this trainer does not
  bool block_messages = false;                        // the same: a block's weights move in one message
  int64_t moment_bytes = 0, logits_chunks = 1;        // as in MemoryOptions; this trainer does not
  int64_t stages = 1, virtual_stages = 1;  // as in StepSettings: the network, the GPUs and the grid are one stage's
  ContextSplit context = {};  // in mode exact, with the coefficients of the trainer; kAutomaticContext: tries all
  OverlapSwitches overlap;
  int moments = optimizer_moments(OptimizerKind::adamw);  // elements of optimizer state per weight
  bool divided_update = false;                            // among the replicas
  double memory_margin = 0.08;                            // share of a GPU's memory for fragmentation and libraries
  int64_t top = 20;                                       // number of layouts to return
  bool prune = true;                                      // false: evaluates every candidate, with the same result
};

// One grid in its best form.
struct PlannedLayout {
  GridShape grid;
  std::optional<AxisPlacement> placement;  // nothing if a level ends within an axis that it does not divide
  // Gives the placement to ranks numbered node by node. Nothing: ranks must be mapped.
  std::optional<AxisOrder> order;
  AxisLinks links;
  ContextSplit context;
  AxisLink context_link;  // the ring over its ranks
  Precision precision = Precision::bf16;
  int64_t micro_batch = 1;  // sequences
  int64_t micro_batches = 1;
  Recomputation recompute = Recomputation::none;
  bool attention_rows = false, norm_rows = false;        // divided
  int prefetch = kPrefetch, outstanding = kOutstanding;  // unfinished gathers and reduce-scatters
  double cached = 0;                                     // share of the gathered weights that stay in memory
  MemoryPrediction memory;                               // without the cache
  int64_t cache_bytes = 0;
  StepTime time;
  double tokens_per_second = 0;
  double model_utilisation = 0;     // share of the peak; counts 3 forward passes
  double hardware_utilisation = 0;  // also counts recomputation: the AxoNN paper's figure with checkpointing
  double dollars = 0;               // dollars per step
  double value = 0;                 // value of the objective
  bool ties_with_previous = false;  // equal values are ordered by (x, y, z, data)

  bool checkpoint() const { return recompute != Recomputation::none; }
  int64_t memory_bytes() const { return memory.total_bytes() + cache_bytes; }
};

struct Rejection {
  GridShape grid;
  std::string reason;      // "heads % x", "batch % (z data)", "memory", ...
  int64_t bytes_over = 0;  // reason "memory": bytes that the smallest form of the grid lacks
};

struct SearchResult {
  int64_t considered = 0;              // grids within the bounds of the options
  int64_t candidates = 0;              // grids x placements x all that is tried for them, if it fits
  int64_t evaluated = 0;               // candidates whose step time was computed; the others could not be better
  std::vector<PlannedLayout> layouts;  // best first
  std::vector<Rejection> rejections;
};

// Deterministic. UserError for options that no grid can meet: GPU counts that do not fill whole
// nodes, a batch that is not a whole number of sequences, a precision that the machine lacks. It is
// no error when no grid fits in memory; then the rejections have the missing bytes.
SearchResult search_grids(const NetworkModel& network, const Machine& machine, const SearchOptions& options);

// The best layout of one grid. The other options are searched as in search_grids(). UserError with
// the reason when the grid is rejected.
PlannedLayout plan_grid(const NetworkModel& network, const Machine& machine, const SearchOptions& options,
                        const GridShape& grid);

// The batches nearest to the options', below and above, in samples, that divide over the grid of
// these GPUs with the largest z x data, if memory is ignored. Empty when the network divides over
// none of their grids.
std::vector<int64_t> nearest_batches(const NetworkModel& network, const Machine& machine, const SearchOptions& options);

// The counts nearest to `gpus`, below and above, with a grid that fits if memory is ignored. Empty
// when there are none near.
std::vector<int64_t> nearest_gpu_counts(const NetworkModel& network, const Machine& machine,
                                        const SearchOptions& options, int64_t gpus);

}  // namespace axonn
