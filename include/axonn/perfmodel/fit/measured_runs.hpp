#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/network/networks.hpp"
#include "axonn/perfmodel/search/grid_search.hpp"

namespace axonn {

// A training run whose seconds are known, and the layout that it had.
struct MeasuredRun {
  std::string place;  // "runs.csv:3", for errors
  Machine machine;
  NetworkModel network;  // one stage, if stages > 1
  GridShape grid;        // one stage's; all zero: not known, so the best one
  int64_t gpus = 0;
  int64_t batch = 0;        // samples per step over the whole grid
  int64_t micro_batch = 0;  // 0: not known, so the best one
  Checkpointing checkpointing = Checkpointing::off;
  int64_t stages = 1, virtual_stages = 1;  // a pipeline outside of the grid
  bool sequence_norms = false;
  bool block_messages = false;  // a block's weights move over Z in one message
  Precision precision = Precision::bf16;
  std::optional<AxisOrder> order;   // nothing: not known, so the best placement
  bool multi_level = true;          // collectives may run level by level
  std::string schedule = "ar-opt";  // the optimizer's
  bool divided_update = false;      // whether that schedule divides the update
  OverlapSwitches overlap;
  double seconds = 0;  // per step

  bool best_grid() const { return grid.x == 0; }
};

// Reads CSV. The first line that is not a comment (#) names the columns, in any order:
//   grid                  4x1x16x16; best; or none: all GPUs on Z
//   gpus                  where the grid does not say how many
//   batch, micro_batch    samples: of the whole grid; of one rank and forward pass (none: the best)
//   seconds               of a step; or tokens_per_second_per_gpu; or percent_of_peak, counting
//                         the blocks that run again
//   checkpointed          0, 1, selective or stopped (Checkpointing); none: 0
//   layers, hidden, heads, sequence, vocabulary
//                         a network of GPT-2's shape; or model: as find_network() takes it, if
//                         there are no sizes; none: it is `network`
//   machine               as find_machine() takes it, unless `machine` is given
//   pipeline, virtual_stages, sequence_norms, overlap
//                         stages; chunks per stage; 0 or 1; 0 (nothing runs beside computation),
//                         1 (all does, and weights of a known grid are gathered every time, as
//                         other programs do; none means this), or the trainer's words, such as all
//   messages              blocks: the weights of a block move over Z in one message, as units of
//                         FSDP do (none, unless the grid is `best` or overlap has the trainer's
//                         words); weights: each moves in its own, as this trainer's do
//   fused_attention       0: scores go through memory (with columns heads and sequence)
//   precision             bf16 (none), fp16, fp32 or fp64
//   optimizer_schedule    ar-opt (none), rs-opt-ag or fuse
//   reduction             levels (none): collectives may run level by level; or ring
//   order                 of the axes over the ranks, such as xyzd (none: the best placement)
// Other columns are refused, except accumulation and mfu_percent: they follow from these. UserError
// with file:line and column for what is missing or out of range, and for two lines with the same
// layout whose seconds differ by more than a half.
// A folder is the directory of a run of `gpt` or `unet`: every start of it (starts.jsonl) is a run,
// whose seconds are the median of its steps (metrics.jsonl) after the first two. Starts of fewer
// than five steps are left out; UserError if none is left, if `network` is given, and for a
// reduction program or a split forward pass.
std::vector<MeasuredRun> read_runs(const std::string& file, const NetworkModel* network, const Machine* machine);
std::vector<MeasuredRun> parse_runs(std::string_view text, const std::string& name, const NetworkModel* network,
                                    const Machine* machine);

// Seconds of the run's layout by the model on this machine. A known grid has memory enough.
double predicted_seconds(const MeasuredRun& run, const Machine& machine);

}  // namespace axonn
