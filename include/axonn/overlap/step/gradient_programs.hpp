#pragma once

#include <string_view>
#include <vector>

#include "axonn/comm/programs/reduction_runner.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/overlap/step/gradient_sums.hpp"

namespace axonn {

// Reduction programs in the place of the rings that sum gradients over data, and over Z x data where a parameter is whole on every Z rank,
// and of those that reduce-scatter them over Z.
// Bits are then those of the program and of the buckets' cut: equal on all replicas and in every run, but not the ring's.

// "ring" (none), or programs as `axonn-config synthesize` prints them, joined by ';'.
std::vector<ReductionProgram> parse_gradient_programs(std::string_view text);

// Over which axes each program of the grid's ranks works: {data} or {z, data}, with Z = 1 the same, for programs that leave every member
// the whole sum; {z} for those that leave it one part (ReductionGoal::scatter: any part, the runner cuts the buffer to fit). UserError
// unless it does so in all groups of these axes, adds in the same order on all members that end with the same elements, and is the only
// one for these axes.
std::vector<AxisSet> check_gradient_programs(const std::vector<ReductionProgram>& programs, const Grid& grid);

// What Scheduler::set_gradient_sums takes. Every rank of the grid makes it.
class GradientPrograms final : public GradientSums {
 public:
  // `programs`, over the grid's ranks, have been checked. `communicators`, of the same device, serve what no program is for.
  GradientPrograms(Environment& environment, Communicators& communicators, const Grid& grid, int rank, c10::Device device,
                   const std::vector<int>& job_ranks, const std::vector<ReductionProgram>& programs);

  Request all_reduce(const GradientBucket& bucket) override;
  Request reduce_scatter(const GradientBlock& block) override;

 private:
  struct Program {
    AxisSet axes;
    ReductionRunner runner;
  };
  Program* program_over(AxisSet axes);

  GridShape shape_;
  std::vector<Program> programs_;
};

}  // namespace axonn
