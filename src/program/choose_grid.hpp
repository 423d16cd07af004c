#pragma once

#include <string>

#include "axonn/perfmodel/search/grid_search.hpp"
#include "axonn/program/run_options.hpp"

namespace axonn {

// --grid auto: the planner's best layout for so many ranks of the options' machine, with the precision, optimizer, batch and overlaps of the
// run; its order is one that the job's ranks have. The same on every rank, as it is arithmetic. UserError: no machine named, or no grid
// fits (why the nearest does not).
PlannedLayout choose_grid(const RunOptions& options, const NetworkModel& network, Checkpointing checkpointing, int ranks);

// "grid 2x1x2x1, order xyzd: the planner's best for machine mine, 0.213 s a step predicted"
std::string chosen_grid_text(const PlannedLayout& layout, const std::string& machine);

}  // namespace axonn
