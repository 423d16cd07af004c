#pragma once

#include <span>
#include <vector>

#include "axonn/grid/grid.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/grid/reduction/reduction_semantics.hpp"
#include "axonn/perfmodel/machine/machine.hpp"
#include "axonn/perfmodel/reduction/reduction_simulator.hpp"

namespace axonn {

// The links of a machine's levels for the simulator. `sizes`: how many units of each level a job fills, outermost first, ending with the
// GPUs of the innermost level; the machine's outer levels may be left out. One link of each unit serves all GPUs in it.
Network network_of(const Machine& machine, std::span<const int> sizes);

struct PlannedReduction {
  ReductionProgram program;  // of the grid's ranks
  double seconds = 0;
};

// Every program of at most `length_limit` collectives that sums `bytes` of each rank over `axes` of a grid whose ranks are numbered node by
// node in this order (P2, section 3.5), and the plain all-reduce, fastest first by simulate_reduction(); of equals the plain one, then the
// shorter. With another goal than all-reduce, the programs that get there and the plain reduce-scatter. UserError when the ranks fill no
// whole nodes, or a node ends within an axis.
std::vector<PlannedReduction> plan_reductions(const Machine& machine, const Grid& grid, AxisSet axes, double bytes,
                                              ReductionGoal goal = ReductionGoal::all_reduce, int length_limit = 4);

}  // namespace axonn
