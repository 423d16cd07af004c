#pragma once

#include <span>
#include <vector>

#include "axonn/grid/grid.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/grid/reduction/reduction_semantics.hpp"
#include "axonn/perfmodel/machine/machine.hpp"
#include "axonn/perfmodel/reduction/reduction_simulator.hpp"
#include "axonn/perfmodel/reduction/reduction_synthesis.hpp"

namespace axonn {

// The links of a machine's levels for the simulator. `sizes`: how many units of each level a job
// fills, outermost first, down to the GPUs of the innermost level. Outer levels of the machine may
// be left out. All GPUs of a unit share its link. UserError for more sizes than machine levels.
Network network_of(const Machine& machine, std::span<const int> sizes);

// Programs for one reduction, the fastest first. Only their instructions are kept: the groups of
// ranks of all programs together would fill the memory of a rank of a large job.
class PlannedReductions {
 public:
  size_t size() const { return found_.size(); }
  double seconds(size_t i) const { return found_.at(i).seconds; }
  ReductionProgram program(size_t i) const;  // in ranks of the grid

 private:
  struct Found {
    InstructionProgram instructions;  // none: the plain collective
    double seconds = 0;
  };
  SynthesisHierarchy hierarchy_;
  Collective plain_ = Collective::all_reduce;
  std::vector<int> ranks_;  // rank of each device
  std::vector<Found> found_;
  ReductionProgram on_devices(const Found& found) const;
  friend PlannedReductions plan_reductions(const Machine&, const Grid&, AxisSet, double, ReductionGoal, int);
};

// Every program of at most `length_limit` collectives that sums `bytes` of each rank over `axes` of
// the grid, and the plain all-reduce (P2, section 3.5). The ranks are numbered node by node in the
// grid's order. Fastest first by simulate_reduction(); of equally fast programs the plain one, then
// the shortest. With another goal, the programs that reach it and the plain reduce-scatter.
// UserError when the ranks do not fill whole nodes, or when a level ends within an axis that it
// does not divide.
PlannedReductions plan_reductions(const Machine& machine, const Grid& grid, AxisSet axes, double bytes,
                                  ReductionGoal goal = ReductionGoal::all_reduce, int length_limit = 4);

}  // namespace axonn
