#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "axonn/core/names.hpp"
#include "axonn/network/network_model.hpp"
#include "axonn/perfmodel/time/step_model.hpp"
#include "axonn/terms/overlap_portions.hpp"

namespace axonn {

enum class Objective : uint8_t {
  time,           // seconds of a step
  communication,  // seconds of all collectives, hidden or not: what the paper ranks by
  memory,         // bytes of a GPU
  cost,           // dollars of a step
};
template <>
struct Names<Objective> {
  static constexpr Named<Objective> all[] = {{"time", Objective::time},
                                             {"communication", Objective::communication},
                                             {"memory", Objective::memory},
                                             {"cost", Objective::cost}};
};

enum class Checkpointing : uint8_t { automatic, on, off };
template <>
struct Names<Checkpointing> {
  static constexpr Named<Checkpointing> all[] = {
      {"auto", Checkpointing::automatic}, {"on", Checkpointing::on}, {"off", Checkpointing::off}};
};

struct SearchOptions {
  std::vector<int64_t> gpus;  // counts; all grids of all of them
  int64_t batch_tokens = int64_t{4} << 20;
  BandwidthMode mode = BandwidthMode::exact;
  Coefficients coefficients = Coefficients::trainer;
  Objective objective = Objective::time;
  std::optional<AxisOrder> order;  // mode exact: only the placement of this order; other modes: X Y Z data without one
  GridShape fixed = {0, 0, 0, 0};  // sizes that grids must have; 0: any
  int64_t min_tensor = 1, max_tensor = std::numeric_limits<int64_t>::max();  // bounds of x * y * z
  std::vector<Precision> precisions = {Precision::bf16};
  Checkpointing checkpointing = Checkpointing::automatic;
  int64_t micro_batch = 0;  // sequences; 0: every divisor of a rank's share is tried, up to 1024
  bool multi_level = true;  // mode exact: collectives may go level by level
  OverlapSwitches overlap;
  OptimizerKind optimizer = OptimizerKind::adamw;
  double memory_margin = 0.08;  // of a GPU's memory that fragmentation and libraries take
  int64_t top = 20;             // layouts that are returned
  bool prune = true;            // false: every candidate is evaluated; the result is the same
};

// One grid in its best form.
struct PlannedLayout {
  GridShape grid;
  std::optional<AxisPlacement> placement;  // nothing where the mode's order ends a node within an axis
  std::optional<AxisOrder> order;          // that gives the placement to ranks numbered node by node; nothing: ranks must be mapped
  AxisLinks links;
  Precision precision = Precision::bf16;
  int64_t micro_batch = 1;  // sequences
  int64_t micro_batches = 1;
  bool checkpoint = false;
  int prefetch = kPrefetch, outstanding = kOutstanding;  // gathers ahead and reduce-scatters under way that fit in memory
  double cached = 0;                  // share of the gathered weights that stay
  MemoryPrediction memory;            // without the cache
  int64_t cache_bytes = 0;
  StepTime time;
  double tokens_per_second = 0;
  double model_utilisation = 0;     // of the peak, 3 forwards counted
  double hardware_utilisation = 0;  // what is run again counted too: the AxoNN paper's figure when blocks are checkpointed
  double dollars = 0;               // a step
  double value = 0;                 // of the objective
  bool ties_with_previous = false;  // equal value: the order among them is that of (gpus, x, y, z, data)

  int64_t memory_bytes() const { return memory.total_bytes() + cache_bytes; }
};

struct Rejection {
  GridShape grid;
  std::string reason;      // "heads % x", "batch % (z data)", "memory", ...
  int64_t bytes_over = 0;  // for "memory": of its leanest form
};

struct SearchResult {
  int64_t considered = 0;              // grids within the bounds that were asked for
  int64_t candidates = 0;              // grids x placements x micro-batches x checkpointing x precisions that fit
  int64_t evaluated = 0;               // of those, whose step was computed; the others could not be better
  std::vector<PlannedLayout> layouts;  // best first
  std::vector<Rejection> rejections;
};

// Deterministic. UserError for options that no grid can meet: counts that fill no whole nodes, a batch that is no whole number of
// sequences, a precision that the machine lacks. No grid in memory is not an error: rejections say by how many bytes.
SearchResult search_grids(const NetworkModel& network, const Machine& machine, const SearchOptions& options);

// One grid with the options' other choices searched, for explanations. UserError with the reason when it is rejected.
PlannedLayout plan_grid(const NetworkModel& network, const Machine& machine, const SearchOptions& options, const GridShape& grid);

// Counts nearest to `gpus`, below and above, of which some grid fits but for memory. Empty when there are none near.
std::vector<int64_t> nearest_gpu_counts(const NetworkModel& network, const Machine& machine, const SearchOptions& options, int64_t gpus);

}  // namespace axonn
