#pragma once

#include <span>
#include <vector>

#include "axonn/grid/grid.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/grid/reduction/reduction_semantics.hpp"
#include "axonn/perfmodel/machine/machine.hpp"
#include "axonn/perfmodel/reduction/reduction_simulator.hpp"

namespace axonn {

// The links of a machine's levels for the simulator. `sizes`: how many units of each level a job
// fills, outermost first, down to the GPUs of the innermost level. Outer levels of the machine may
// be left out. All GPUs of a unit share its link. UserError for more sizes than machine levels.
Network network_of(const Machine& machine, std::span<const int> sizes);

struct PlannedReduction {
  ReductionProgram program;  // in ranks of the grid
  double seconds = 0;
};

// Every program of at most `length_limit` collectives that sums `bytes` of each rank over `axes` of
// the grid, and the plain all-reduce (P2, section 3.5). The ranks are numbered node by node in the
// grid's order. Fastest first by simulate_reduction(); of equally fast programs the plain one, then
// the shortest. With another goal, the programs that reach it and the plain reduce-scatter.
// UserError when the ranks do not fill whole nodes, or when a level ends within an axis that it
// does not divide.
std::vector<PlannedReduction> plan_reductions(const Machine& machine, const Grid& grid, AxisSet axes, double bytes,
                                              ReductionGoal goal = ReductionGoal::all_reduce, int length_limit = 4);

}  // namespace axonn
