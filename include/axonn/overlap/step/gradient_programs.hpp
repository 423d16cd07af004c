#pragma once

#include <string_view>
#include <vector>

#include "axonn/comm/programs/reduction_runner.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/overlap/step/gradient_sums.hpp"

namespace axonn {

// Reduction programs that replace the rings which sum gradients: over data, over Z x data for
// parameters replicated over Z, and the reduce-scatters over Z. The bits then depend on the
// programs and on the bucket ranges. They are equal on all replicas and in every run, but differ
// from the ring's.
// "ring" means no programs; otherwise programs as `axonn-config synthesize` prints them, joined by
// ';'.

// "ring" (none), or programs as `axonn-config synthesize` prints them, joined by ';'.
std::vector<ReductionProgram> parse_gradient_programs(std::string_view text);

// The axes over which each program sums. {data} and {z, data}, the same when Z = 1, are for
// programs that leave the whole sum on every member. {z} is for programs that leave one part on
// each member (ReductionGoal::scatter); it may be any part, as the runner splits the buffer to fit.
// UserError unless each program does this in all groups of its axes and is the only one for them.
// All members that end with the same elements must also add them in the same order.
std::vector<AxisSet> check_gradient_programs(const std::vector<ReductionProgram>& programs, const Grid& grid);

// For Scheduler::set_gradient_sums(). Every rank of the grid constructs it.
class GradientPrograms final : public GradientSums {
 public:
  // `programs` span the grid's ranks; check_gradient_programs() must accept them. `communicators`,
  // of the same device, do the sums that no program covers.
  GradientPrograms(Environment& environment, Communicators& communicators, const Grid& grid, int rank,
                   c10::Device device, const std::vector<int>& job_ranks,
                   const std::vector<ReductionProgram>& programs);

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
