#pragma once

#include <optional>
#include <string>
#include <vector>

#include "axonn/perfmodel/search/grid_search.hpp"

namespace axonn {

// Why a grid cannot hold the network and the batch, memory aside; nothing when it can.
std::optional<std::string> misfit_of(const NetworkModel& network, const SearchOptions& options, const GridShape& grid);

// The best form of one grid: placement, precision, checkpointing, micro-batch. Holds references to what it was made from.
class GridPlanner {
 public:
  GridPlanner(const NetworkModel& network, const Machine& machine, const SearchOptions& options, const GridShape& grid,
              const std::vector<int64_t>& level_sizes);

  std::optional<Rejection> rejection() const { return rejection_; }
  int64_t candidates() const;
  double bound() const;  // no form has a lower value of the objective

  // Forms that cannot be better than the best so far are left out when prune is set. *evaluated grows by those that were computed.
  PlannedLayout best(bool prune, int64_t* evaluated) const;

 private:
  struct Way {  // how ranks lie, and what that makes of the links
    std::optional<AxisPlacement> placement;
    AxisLinks links;
  };
  struct Form {  // what fits in memory
    Precision precision;
    bool checkpoint;
    bool rich;                           // prefetch and outstanding as by default; otherwise 1 each
    MemoryPrediction one;                // of a micro-batch of one sequence
    double gathered_bytes;               // of all weights, gathered over Z
    std::vector<int64_t> micro_batches;  // sequences, ascending
  };

  void find_ways(const std::vector<int64_t>& level_sizes);
  void find_forms();
  void add_form(Precision precision, bool checkpoint, int64_t* least_over);
  MemoryPrediction memory(const Form& form, int64_t micro_batch) const;
  double usable_bytes() const;
  int64_t sequences() const;  // of a rank in a step
  StepSettings settings(const Form& form, int64_t micro_batch, double cached) const;
  double value(const StepTime& time, const MemoryPrediction& memory) const;
  double lower_bound(const Way& way, const Form& form) const;
  PlannedLayout layout(const Way& way, const Form& form, int64_t micro_batch) const;
  void complete(PlannedLayout& layout) const;

  const NetworkModel* network_;
  const Machine* machine_;
  const SearchOptions* options_;
  GridShape grid_;
  std::vector<Way> ways_;
  std::vector<Form> forms_;
  std::optional<Rejection> rejection_;
};

}  // namespace axonn
