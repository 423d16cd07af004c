#pragma once

#include <memory>
#include <span>
#include <vector>

#include "axonn/coconet/stages/stage_chain.hpp"
#include "axonn/comm/communicator.hpp"
#include "overlap/execute/plan_memory.hpp"

namespace axonn {

struct LoopOptions {
  int threads = 0;  // at most; 0: all of the process
  coconet::InstructionSet instruction_set = coconet::best_instruction_set();
  uint64_t seed = 0;  // dropout's
};

// The loop of one step of a plan on one rank: its stage chain over ranges of elements, or over the
// numbers of the host. It refers to the memory.
class StepLoop {
 public:
  StepLoop(const coconet::SchedulePlan& plan, const coconet::PlanStep& step, PlanMemory& memory,
           const LoopOptions& options);

  // Reads the numbers, forgets sums. UserError if a number has no value.
  void begin();
  // `elements` of the loop, which this rank holds. `sums`: what a collective hands over; `results`:
  // what it gathers. Null where the step has none, or the loop's memory is meant. From any thread,
  // one call at a time.
  void run(Range elements, const void* sums, void* results);
  // run() as a collective's epilogue, whose places are counted from `first`. The loop, and with it
  // `keeper`, are there until the last call.
  Epilogue epilogue(int64_t first = 0, std::shared_ptr<void> keeper = {});
  // On the threads of the options: all elements that this rank computes, or these tasks.
  void run_all() { run_tasks(places_->tasks()); }
  void run_tasks(std::span<const Range> tasks);
  // A step of scalars.
  void run_numbers();
  // Stores the sums of all elements.
  void finish();

  const coconet::StepKernel& kernel() const { return kernel_; }

 private:
  // The working memory of one thread.
  struct Scratch {
    std::vector<void*> streams;
    std::vector<double> values;
    std::vector<coconet::MaskInput> masks;
    std::vector<std::vector<double>> blocks;  // per sum, those of one call
    std::vector<double*> block_places;
    std::vector<std::vector<LoopPartial>> partials;  // per sum
  };

  Scratch make_scratch() const;
  void run(Scratch& scratch, Range elements, const void* sums, void* results);
  void run_piece(Scratch& scratch, const LoopPiece& piece, const void* sums, void* results);

  PlanMemory& memory_;
  LoopOptions options_;
  coconet::StepKernel kernel_;
  coconet::StageChain chain_;
  std::unique_ptr<LoopMemory> places_;

  std::vector<double> scalars_;
  Scratch scratch_;               // the caller's of run()
  std::vector<Scratch> threads_;  // one per thread
};

}  // namespace axonn
