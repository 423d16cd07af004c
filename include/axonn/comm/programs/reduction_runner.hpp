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
  std::vector<int> job_ranks = {};  // [i]: the rank in the job of the program's rank i; empty: the same number
  // For reduce_scatter(): the groups over which the program reduces with goal `scatter`. Whatever parts of a buffer it leaves to the
  // members, they are cut so that member i ends with its i-th shard. check_scatters() has to agree.
  std::vector<std::vector<int>> scatter_groups = {};
};

// Runs a reduction program (P2) on real communicators: MPI, TCP or threads for CPU tensors, NCCL for CUDA ones. Each step goes to the
// ordered queue of this rank's group in it, to start when the step before is done; groups that occur in several steps share one.
class ReductionRunner {
 public:
  // Every one of the program's ranks makes it, with the same program. `rank` is this process's among them. UserError for a program that
  // held_chunks refuses.
  ReductionRunner(Environment& environment, const ReductionProgram& program, int rank, int ranks,
                  const ReductionRunnerOptions& options = {});
  // UserError unless the program reduces over these groups with goal `scatter`, the last step a reduce-scatter in which every rank takes
  // part: it writes into the shards.
  static void check_scatters(const ReductionProgram& program, std::span<const std::vector<int>> groups);
  ~ReductionRunner();
  ReductionRunner(ReductionRunner&&) noexcept;

  // Sums `data` in place and without copies: contiguous, on the device, as many elements on every rank, any number of them. Does not block
  // the host, like a collective. Afterwards this rank's result() ranges hold what the program computes, the rest is unspecified. Every rank
  // calls it, in the same order. `options.arena_offset` means nothing here. A steady state allocates no buffers.
  Request run(const at::Tensor& data, const CollectiveOptions& options = {});

  // Like Communicator::reduce_scatter over this rank's group of `scatter_groups`: counts[i] elements of `whole` are member i's, which gets
  // their sum in `shard`, apart from `whole`. What is left in `whole` is unspecified.
  Request reduce_scatter(const at::Tensor& whole, const at::Tensor& shard, std::span<const int64_t> counts,
                         const CollectiveOptions& options = {});

  // The ranges of `elements` elements that this rank holds at the end: all of them after an all-reduce.
  std::vector<Range> result(int64_t elements) const;

  // Bytes this rank has sent so far.
  int64_t bytes_sent() const;

 private:
  struct Call;
  struct Cut;
  struct Buffers;
  struct Running;
  // The collectives of one step on this rank's group, each on contiguous chunks; empty when it takes no part.
  struct Step {
    std::vector<std::shared_ptr<Communicator>> lanes;  // call i goes to lane i of as many as there are: to several roots at the same time
    std::vector<Call> calls;
  };

  static std::vector<Call> calls_of(Collective collective, const std::vector<std::vector<Range>>& before,
                                    const std::vector<std::vector<Range>>& after);
  static void write_to_shards(std::vector<Call>& calls, int members);
  void into_shards(HeldChunks& flow, const std::vector<int>& group) const;
  Request run(const Buffers& buffers, const Cut& cut, const CollectiveOptions& options);
  static Request launch(Communicator& communicator, const Call& call, const Buffers& buffers, const Cut& cut,
                        const CollectiveOptions& options);
  std::shared_ptr<Running> idle();

  int64_t chunks_ = 1;
  int member_ = -1;  // this rank's place in its group of scatter_groups
  size_t num_calls_ = 0;
  std::vector<Step> steps_;
  std::vector<Range> result_;
  std::vector<std::shared_ptr<Running>> running_;  // used again once nobody asks for them any more
};

}  // namespace axonn
