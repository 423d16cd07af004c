#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/coconet/plan/run_settings.hpp"
#include "axonn/coconet/plan/schedule_plan.hpp"
#include "axonn/coconet/stages/stage_chain.hpp"
#include "axonn/comm/communicator.hpp"
#include "axonn/comm/environment.hpp"
#include "axonn/grid/shard_spec.hpp"

namespace axonn {

struct ExecutorOptions {
  coconet::SizeValues sizes;
  // Place of element 0 in an arena. Sliced tensors are cut as BlockOwners cuts the arena, so every
  // rank holds blocks of the flat tensor, whatever dim the program names. A product's operands that
  // are sliced on the dim that it sums are not: rank r of R has the indices from extent * r / R to
  // extent * (r + 1) / R.
  int64_t arena_offset = 0;
  uint64_t seed = 0;  // dropout's: another one for every step
  coconet::RunSettings run = {};
  coconet::InstructionSet instruction_set = coconet::best_instruction_set();
};

// Runs a plan on this rank's part of a group, on the CPU. Computations are stage chains.
// Collectives are the communicator's, fused ones with the chain as their epilogue. An overlapped
// one moves the first parts of what its producer computes while the others are computed; rows of a
// product round differently then, and owners have contiguous shares, so its bits are others. A send
// goes to the same rank of another group; a transfer is a SlicedTransfer, whose owners have shares
// of each part. Every rank makes one with the same plan and options, and calls run() as often.
class PlanExecutor {
 public:
  // On these ranks, for a program of one group. UserError that names what it cannot run: layers on
  // slices that are cut along another dim than the one that is summed, sliced tensors of more than
  // one shape, sums over other than the last dims, dropout of a tensor that is smaller than the
  // result. Also if its tensors have more bytes than the host has free now, or if a run would take
  // days.
  PlanExecutor(coconet::SchedulePlan plan, Communicator& ranks, ExecutorOptions options);
  // On all ranks of the job, for a program of any number G of groups: job rank g * R + i is rank i
  // of group g. UserError on all ranks, also unless their number is a multiple of G. `environment`
  // outlives it.
  PlanExecutor(coconet::SchedulePlan plan, Environment& environment, ExecutorOptions options);
  ~PlanExecutor();
  // The constructors' check of the sizes: UserError with the bytes or the operations if `ranks`
  // ranks, of which `local_ranks` share this host, cannot run the plan.
  static void check_size(const coconet::SchedulePlan& plan, const coconet::SizeValues& sizes, int ranks,
                         int local_ranks);
  PlanExecutor(const PlanExecutor&) = delete;
  PlanExecutor& operator=(const PlanExecutor&) = delete;

  // The memory of a declared tensor, or of a value after run(): flat, contiguous. A sliced one has
  // this rank's elements in ascending order, unless it lies in a whole tensor: its home in plan()
  // says so. UserError for a value that stays in registers, or is on another group.
  at::Tensor memory(const std::string& value) const;
  // The elements of the whole value that memory has, in its order.
  std::vector<Range> held(const std::string& value) const;
  void clear();  // this rank's declared tensors become zero
  // Uses the caller's memory for a declared tensor from now on.
  void bind(const std::string& tensor, at::Tensor memory);

  void set(const std::string& scalar, double value);  // keeps its value until set again
  double number(const std::string& value) const;      // a scalar or a computed number

  // UserError if a scalar has no value. Returns when all results are there.
  void run();

  const coconet::SchedulePlan& plan() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace axonn
