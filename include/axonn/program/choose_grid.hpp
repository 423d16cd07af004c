#pragma once

#include <string>

#include "axonn/perfmodel/search/grid_search.hpp"
#include "axonn/program/run_options.hpp"

namespace axonn {

// --grid auto: sets grid, order and, where nobody did, the micro-batch to the planner's best for so many ranks of `options.machine`, with
// the precision, optimizer, batch and overlaps of the run. The same on every rank, as it is arithmetic. Returns the layout, for what the
// network decides by itself (activation checkpointing). UserError: no machine named, or no grid fits (why the nearest does not).
PlannedLayout choose_grid(RunOptions& options, const NetworkModel& network, Checkpointing checkpointing, int ranks);

// "grid 2x1x2x1, order xyzd: the planner's best for machine mine, 0.213 s a step predicted"
std::string chosen_grid_text(const RunOptions& options, const PlannedLayout& layout);

}  // namespace axonn
