#pragma once

#include <optional>
#include <string>

#include "axonn/config/option_table.hpp"
#include "axonn/grid/grid_shape.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/train/trainer.hpp"

namespace axonn {

// What can be set for a run of any model: grid, types, overlaps, training. A program adds its model and data to the same table.
struct RunOptions {
  std::string grid = "1x1x1x1";  // "auto": see choose_grid.hpp
  std::string machine;           // that the planner knows the links and speeds of, for "auto"
  std::string order = "xyzd";
  at::ScalarType dtype = at::kFloat;
  std::string gradient_dtype = "auto";
  std::string device = "cpu";
  std::string gemm = "auto";
  std::string overlap = "all";
  std::string gather_cache = "512M";
  std::string bucket = "25M";
  int64_t prefetch = OverlapPolicy().prefetch;
  std::string reduction = "ring";  // "auto": see choose_reduction.hpp
  TrainConfig train;

  // Keys of files and flags: sections [run], [overlap] and [train]. `samples`: what a batch is made of, "sequences".
  void bind(OptionTable& table, const std::string& samples);

  // Throws UserError for values that fit neither each other nor the grid; nothing has been allocated or started yet.
  void check() const;
  // UserError when `local_ranks` ranks that need `rank_bytes` each do not fit in this machine's memory; tensors on a GPU are not counted.
  void check_memory(int64_t rank_bytes, int local_ranks) const;
  // UserError unless the job has as many ranks as the grid; with advice for a program that nobody launched as a job.
  void check_ranks(int ranks) const;

  // What predict_memory() has to know of a run; a program adds what its model does. Of a grid that check() accepts.
  MemoryOptions memory() const;

  GridShape shape() const { return parse_grid_shape(grid); }
  OverlapPolicy policy() const;
  ContextOptions context() const;
};

}  // namespace axonn
