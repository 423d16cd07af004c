#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/comm/environment.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"

namespace axonn {

struct ReductionRunnerOptions {
  c10::Device device = c10::kCPU;
  std::vector<int> job_ranks = {};  // [i]: job rank of the program's rank i; empty: the same number
  // For reduce_scatter(): the groups over which the program reduces with goal `scatter`. The
  // program may leave any parts of a buffer to the members: the runner splits the buffer so that
  // member i ends with the i-th shard. check_scatters() must accept them.
  std::vector<std::vector<int>> scatter_groups = {};
};

struct ReductionCall;

// Runs a reduction program (P2) on real communicators: MPI, TCP or threads for CPU tensors, NCCL
// for CUDA tensors. Each step goes to the ordered queue of this rank's group and starts when the
// step before is done. Steps on the same group share a queue.
class ReductionRunner {
 public:
  // Every rank of the program constructs it, with the same program. `rank` is this process's rank
  // in the program. UserError for a program that held_chunks() refuses.
  ReductionRunner(Environment& environment, const ReductionProgram& program, int rank, int ranks,
                  const ReductionRunnerOptions& options = {});
  // UserError unless the program reduces over these groups with goal `scatter`. Its last step must
  // be a reduce-scatter in which every rank takes part, because that step writes into the shards.
  static void check_scatters(const ReductionProgram& program, std::span<const std::vector<int>> groups);
  ~ReductionRunner();
  ReductionRunner(ReductionRunner&&) noexcept;

  // Sums `data` in place, without copies. `data` is flat and contiguous, on the device, with any
  // number of elements that is equal on all ranks. The call does not block the host. Afterwards
  // this rank's result() ranges hold what the program computes; the rest is unspecified. Every rank
  // calls it, in the same order. `options.arena_offset` is ignored. A steady state allocates no
  // buffers.
  Request run(const at::Tensor& data, const CollectiveOptions& options = {});

  // Like Communicator::reduce_scatter over this rank's group of `scatter_groups`. counts[i]
  // elements of `whole` belong to member i, which gets their sum in `shard`. `shard` does not
  // overlap `whole`. Afterwards `whole` is unspecified.
  Request reduce_scatter(const at::Tensor& whole, const at::Tensor& shard, std::span<const int64_t> counts,
                         const CollectiveOptions& options = {});

  // The ranges of a buffer of `elements` elements that this rank holds at the end: the whole buffer
  // after an all-reduce.
  std::vector<Range> result(int64_t elements) const;

  // Bytes this rank has sent so far.
  int64_t bytes_sent() const;

 private:
  struct Cut;
  struct Buffers;
  struct Running;
  // The collectives of one step on this rank's group, each on contiguous chunks.
  struct Step {
    std::vector<std::shared_ptr<Communicator>> lanes;  // call i uses lane i % lanes.size(): several roots at a time
    std::vector<ReductionCall> calls;
  };

  Request run(const Buffers& buffers, const Cut& cut, const CollectiveOptions& options);
  static Request launch(Communicator& communicator, const ReductionCall& call, const Buffers& buffers, const Cut& cut,
                        const CollectiveOptions& options);
  std::shared_ptr<Running> idle();

  int64_t chunks_ = 1;
  int member_ = -1;  // this rank's index in its group of scatter_groups
  size_t num_calls_ = 0;
  std::vector<Step> steps_;
  std::vector<Range> result_;
  std::vector<std::shared_ptr<Running>> running_;  // reused when done and no longer referenced
};

}  // namespace axonn
