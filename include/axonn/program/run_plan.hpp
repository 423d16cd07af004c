#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/program/run_options.hpp"

namespace axonn {

// The plan of a run: options that fit each other and the grid. plan_run() returns it, and it does
// not change later.
struct RunPlan {
  GridShape grid;
  ContextOptions context;          // without the matrix product, which is measured after the job has started
  std::optional<GemmKernel> gemm;  // nullopt: as measured
  TrainConfig train;
  std::string choices = {};  // folder of measured choices; empty: none

  int64_t rows() const { return train.rows(grid, context.forward.context); }  // a micro-batch's
  // Over how many shares the grid divides the rows of a batch.
  int64_t row_groups() const { return axonn::row_groups(grid, context.forward.context); }
};

// Throws UserError for values that fit no grid. Called before anything is allocated or started.
void check_run(const RunOptions& options);

// For options whose grid is known. Reduction programs that are not chosen yet become rings. Throws
// UserError for values that do not fit each other or the grid.
RunPlan plan_run(const RunOptions& options);

// UserError unless the job has as many ranks as the grid. The error contains advice if no launcher
// started the program.
void check_ranks(const GridShape& grid, int ranks);

// The options of predict_memory() that follow from a run. A program adds those of its model.
MemoryOptions memory_options(const RunPlan& plan);
// The bytes that a rank needs, and the flags that lower them.
struct RankMemory {
  std::function<int64_t(const RunPlan&)> bytes;
  std::function<std::string(int64_t)> flag_for_rows;  // makes a micro-batch of so many rows
  // The same with --activation-checkpoint 1; empty: it is not a choice, or made already.
  std::function<int64_t(const RunPlan&)> checkpointed_bytes = {};
};
// For a rank that has `present` bytes and needs more: the flags with the largest micro-batch that
// fits, or that none fits.
std::string what_fits(const RunPlan& plan, const RankMemory& memory, int64_t present);
// Bytes of this machine, with its swap space; 0: the system does not say.
double host_bytes();
// UserError if `local_ranks` ranks do not fit in this machine's memory or in that of its GPUs. It
// says what fits.
void check_memory(const RunPlan& plan, const RankMemory& memory, int local_rank, int local_ranks);

}  // namespace axonn
