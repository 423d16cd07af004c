#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/comm/environment.hpp"
#include "axonn/grid/reduction_program.hpp"

namespace axonn {

// Runs a reduction program (P2) on real communicators: MPI, TCP or threads for CPU tensors, NCCL for CUDA ones. Step after step, each on
// the communicator of this rank's group in it; groups that occur in several steps share one.
class ReductionRunner {
 public:
  // Every one of the program's ranks makes it, with the same program. `rank` is this process's among them, `job_ranks[i]` the rank in the
  // job of the program's rank i; empty: the same number. UserError for a program that held_chunks refuses.
  ReductionRunner(Environment& environment, const ReductionProgram& program, int rank, int ranks, c10::Device device = c10::kCPU,
                  std::vector<int> job_ranks = {});

  // Sums `data` in place: contiguous, on the device, as many elements on every rank, any number of them. Afterwards this rank's result()
  // ranges hold what the program computes, the rest is unspecified. CPU: returns when done; CUDA: the compute stream waits. Every rank
  // calls it.
  void run(const at::Tensor& data) const;

  // The ranges of `elements` elements that this rank holds at the end: all of them after an all-reduce.
  std::vector<Range> result(int64_t elements) const;

  // Bytes this rank has sent so far.
  int64_t bytes_sent() const;

 private:
  struct Step {
    Collective collective;
    std::shared_ptr<Communicator> communicator;  // null: this rank takes no part
    std::vector<std::vector<Range>> before;      // by member of the group, in chunks
    std::vector<std::vector<Range>> after;
  };
  void run(const Step& step, const at::Tensor& data) const;
  Range elements_of(Range chunks, int64_t elements) const;
  std::vector<at::Tensor> views(const at::Tensor& data, const std::vector<Range>& chunks) const;

  int64_t chunks_ = 1;
  std::vector<Step> steps_;
  std::vector<Range> result_;
};

}  // namespace axonn
