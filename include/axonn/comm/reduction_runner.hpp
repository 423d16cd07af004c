#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/comm/environment.hpp"
#include "axonn/grid/reduction_program.hpp"

namespace axonn {

// Runs a reduction program (P2) on real communicators: MPI, TCP or threads for CPU tensors, NCCL for CUDA ones. Each step goes to the
// ordered queue of this rank's group in it, to start when the step before is done; groups that occur in several steps share one.
class ReductionRunner {
 public:
  // Every one of the program's ranks makes it, with the same program. `rank` is this process's among them, `job_ranks[i]` the rank in the
  // job of the program's rank i; empty: the same number. UserError for a program that held_chunks refuses.
  ReductionRunner(Environment& environment, const ReductionProgram& program, int rank, int ranks, c10::Device device = c10::kCPU,
                  std::vector<int> job_ranks = {});
  ~ReductionRunner();
  ReductionRunner(ReductionRunner&&) noexcept;

  // Sums `data` in place and without copies: contiguous, on the device, as many elements on every rank, any number of them. Does not block
  // the host, like a collective. Afterwards this rank's result() ranges hold what the program computes, the rest is unspecified. Every rank
  // calls it, in the same order. `options.arena_offset` means nothing here. A steady state allocates no buffers.
  Request run(const at::Tensor& data, const CollectiveOptions& options = {});

  // The ranges of `elements` elements that this rank holds at the end: all of them after an all-reduce.
  std::vector<Range> result(int64_t elements) const;

  // Bytes this rank has sent so far.
  int64_t bytes_sent() const;

 private:
  struct Call;
  struct Running;
  // The collectives of one step on this rank's group, each on contiguous chunks; empty when it takes no part.
  struct Step {
    std::shared_ptr<Communicator> communicator;
    std::vector<Call> calls;
  };

  static std::vector<Call> calls_of(Collective collective, const std::vector<std::vector<Range>>& before,
                                    const std::vector<std::vector<Range>>& after);
  Request launch(Communicator& communicator, const Call& call, const at::Tensor& data, const CollectiveOptions& options) const;
  Range elements_of(Range chunks, int64_t elements) const;
  std::shared_ptr<Running> idle();

  int64_t chunks_ = 1;
  size_t num_calls_ = 0;
  std::vector<Step> steps_;
  std::vector<Range> result_;
  std::vector<std::shared_ptr<Running>> running_;  // used again once nobody asks for them any more
};

}  // namespace axonn
