#pragma once

#include <string_view>
#include <vector>

#include "axonn/comm/communicators.hpp"
#include "axonn/comm/reduction_runner.hpp"
#include "axonn/comm/scheduler.hpp"
#include "axonn/grid/reduction_program.hpp"

namespace axonn {

// Reduction programs in the place of the rings that sum gradients over data, and over Z x data where a parameter is whole on every Z rank.
// Bits are then those of the program and of the buckets' cut: equal on all replicas and in every run, but not the ring's.

// "ring" (none), or programs as `axonn-config synthesize` prints them, joined by ';'.
std::vector<ReductionProgram> parse_gradient_programs(std::string_view text);

// Which gradients each program of the grid's ranks sums: {data}, or {z, data}; with Z = 1 these are the same. UserError unless it sums over
// all groups of these axes, adds in the same order on all members, and is the only one for them.
std::vector<AxisSet> check_gradient_programs(const std::vector<ReductionProgram>& programs, const Grid& grid);

// What Scheduler::set_bucket_program takes. Every rank of the grid makes it.
class GradientPrograms {
 public:
  // `programs`, over the grid's ranks, have been checked. `communicators`, of the same device, serve what no program is for.
  GradientPrograms(Environment& environment, Communicators& communicators, const Grid& grid, int rank, c10::Device device,
                   const std::vector<int>& job_ranks, const std::vector<ReductionProgram>& programs);

  Request operator()(const GradientBucket& bucket);

 private:
  struct Program {
    AxisSet axes;
    ReductionRunner runner;
  };
  Communicators& communicators_;
  GridShape shape_;
  std::vector<Program> programs_;
};

}  // namespace axonn
