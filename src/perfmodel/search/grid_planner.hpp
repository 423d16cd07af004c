#pragma once

#include <optional>
#include <string>
#include <vector>

#include "axonn/perfmodel/search/grid_search.hpp"
#include "perfmodel/search/memory_plans.hpp"

namespace axonn {

// Why the network and the batch do not divide over a grid, memory aside; nothing if they do.
std::optional<std::string> misfit_of(const NetworkModel& network, const SearchOptions& options, const GridShape& grid);

// The best plan of one grid: placement, precision, checkpointing, micro-batch. Keeps references to
// the network, the machine, the options and the levels.
class GridPlanner {
 public:
  GridPlanner(const NetworkModel& network, const Machine& machine, const SearchOptions& options, const GridShape& grid,
              const std::vector<int64_t>& level_sizes);

  std::optional<Rejection> rejection() const { return rejection_; }
  int64_t candidates() const;
  // A lower bound of the objective over all plans and placements, by the least_link() of each axis.
  bool bounds_roughly() const { return options_->prune && every_placement() && options_->context.ranks == 1; }
  double rough_bound(const AxisLinks& least) const;

  void find_choices();   // the placements; call it before the two below
  double bound() const;  // lower bound of the objective over all plans
  // With `prune`, skips forms that cannot be better than the best so far. Adds the number of
  // computed forms to *evaluated.
  PlannedLayout best(bool prune, int64_t* evaluated) const;

 private:
  struct PlacementChoice {
    std::optional<AxisPlacement> placement;
    AxisLinks links;
    AxisLink context_link = {};
  };

  bool every_placement() const { return options_->mode == BandwidthMode::exact && !options_->order; }
  StepSettings settings(const PlacementChoice& choice, const MemoryPlan& plan, int64_t micro_batch,
                        double cached) const;
  double value(const StepTime& time, const MemoryPrediction& memory) const;
  double lower_bound(const PlacementChoice& choice, const MemoryPlan& plan) const;
  PlannedLayout layout(const PlacementChoice& choice, const MemoryPlan& plan, int64_t micro_batch) const;
  void complete(PlannedLayout& layout) const;

  const NetworkModel* network_;
  const Machine* machine_;
  const SearchOptions* options_;
  const std::vector<int64_t>* level_sizes_;
  GridShape grid_;
  std::vector<PlacementChoice> choices_;
  MemoryPlans plans_;
  std::optional<Rejection> rejection_;
};

}  // namespace axonn
