#pragma once

#include <string>

#include "axonn/perfmodel/search/grid_search.hpp"
#include "axonn/program/run_options.hpp"

namespace axonn {

// --grid auto: the planner's best layout for `ranks` ranks of the options' machine, with the
// precision, optimizer, batch and overlaps of the run. Its order matches the order of the job's
// ranks. It is pure arithmetic, so all ranks get the same result. Throws UserError if no machine is
// named or no grid fits, with the reason for the nearest grid.
PlannedLayout choose_grid(const RunOptions& options, const NetworkModel& network, Checkpointing checkpointing,
                          int ranks);

// "grid 2x1x2x1, order xyzd: the planner's best for machine mine, 0.213 s per step predicted"
std::string chosen_grid_text(const PlannedLayout& layout, const std::string& machine);

}  // namespace axonn
