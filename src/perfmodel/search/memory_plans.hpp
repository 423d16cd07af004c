#pragma once

#include <cstdint>
#include <vector>

#include "axonn/perfmodel/search/grid_search.hpp"

namespace axonn {

// The axis with the ranks that share a sequence.
inline Axis context_axis(const GridShape& grid, const ContextSplit& context) {
  return grid.z == 1 && context.over_data ? Axis::data : Axis::z;
}
inline bool holds_context(const GridShape& grid, const ContextSplit& context) {
  return grid[context_axis(grid, context)] % context.ranks == 0;
}
// Over how many parts the grid divides a batch by whole samples.
inline int64_t sample_parts(const GridShape& grid, const ContextSplit& context) {
  return int64_t{grid.z} * grid.data / context.ranks;
}

struct MemoryPlan {  // fits in memory
  Precision precision;
  Recomputation recompute;
  bool attention_rows, norm_rows;      // divided
  bool rich;                           // default prefetch and outstanding; otherwise 1 each
  MemoryPrediction one;                // for a micro-batch of one sequence
  double gathered_bytes;               // bytes of all weights, gathered over Z
  std::vector<int64_t> micro_batches;  // sequences, ascending
};

// The plans of one grid: precision, recomputation, rows of attention and of norms, with the
// micro-batches that fit. Keeps references to the network, the machine and the options.
class MemoryPlans {
 public:
  MemoryPlans(const NetworkModel& network, const Machine& machine, const SearchOptions& options, const GridShape& grid);

  void find();
  const std::vector<MemoryPlan>& all() const { return plans_; }
  int64_t bytes_over() const { return bytes_over_; }  // bytes that the smallest plan lacks, if none fits

  MemoryPrediction memory(const MemoryPlan& plan, int64_t micro_batch) const;
  double usable_bytes() const;
  int64_t sequences() const;  // per rank per step

 private:
  void add(Precision precision, Recomputation recompute, bool attention_rows, bool norm_rows);

  const NetworkModel* network_;
  const Machine* machine_;
  const SearchOptions* options_;
  GridShape grid_;
  std::vector<MemoryPlan> plans_;
  int64_t bytes_over_;
};

}  // namespace axonn
