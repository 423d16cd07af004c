#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "perfmodel/search/grid_planner.hpp"

namespace axonn {

// The options with every context that some grid of these GPUs may have, or with theirs. The first
// one is the smallest.
std::vector<SearchOptions> of_each_context(const NetworkModel& network, const SearchOptions& options);

// Puts the planners of those contexts that fit a grid at the end of `fitting`. If none does, says
// why: by the memory that the nearest one lacks, or else by the first context. The planners keep
// references to all arguments but the grid.
std::optional<Rejection> find_planners(const NetworkModel& network, const Machine& machine,
                                       const std::vector<SearchOptions>& contexts, const GridShape& grid,
                                       const std::vector<int64_t>& level_sizes, std::vector<GridPlanner>& fitting);

}  // namespace axonn
