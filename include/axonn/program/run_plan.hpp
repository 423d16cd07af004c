#pragma once

#include <cstdint>
#include <optional>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/program/run_options.hpp"

namespace axonn {

// What a run does: options that fit each other and the grid. Made once by plan_run(), const from there on.
struct RunPlan {
  GridShape grid;
  ContextOptions context;          // the matrix product aside, which is measured when the ranks stand
  std::optional<GemmKernel> gemm;  // nothing: as measured
  TrainConfig train;
};

// Throws UserError for values that fit on no grid. Nothing has been allocated or started yet.
void check_run(const RunOptions& options);

// Of options whose grid is known; reduction programs that are not chosen yet are rings. Throws UserError for values that fit neither each
// other nor the grid.
RunPlan plan_run(const RunOptions& options);

// UserError unless the job has as many ranks as the grid; with advice for a program that nobody launched as a job.
void check_ranks(const GridShape& grid, int ranks);

// What predict_memory() has to know of a run; a program adds what its model does.
MemoryOptions memory_options(const RunPlan& plan);
// UserError when `local_ranks` ranks that need `rank_bytes` each do not fit in this machine's memory; tensors on a GPU are not counted.
void check_memory(const RunPlan& plan, int64_t rank_bytes, int local_ranks);

}  // namespace axonn
