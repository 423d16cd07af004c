#pragma once

#include "axonn/grid/grid.hpp"
#include "axonn/program/run_options.hpp"

namespace axonn {

// --reduction auto: sets options.reduction to the programs that sum a bucket of gradients fastest on the links of options.machine, over
// data and over z+data, or to "ring" where a plain all-reduce is as fast. Arithmetic: the same on every rank. UserError: no machine named,
// or one whose nodes end within an axis.
void choose_reduction(RunOptions& options, const Grid& grid);

}  // namespace axonn
