#pragma once

#include <string>
#include <vector>

#include "axonn/coconet/plan/run_settings.hpp"
#include "axonn/coconet/plan/step_kernel.hpp"
#include "axonn/coconet/stages/stage_chain.hpp"
#include "overlap/execute/update_memory.hpp"

namespace axonn {

// The loop of one step of an update: its stage chain over elements of an arena, or over the numbers
// per slot, or one number.
class UpdateLoop {
 public:
  UpdateLoop(const coconet::SchedulePlan& plan, const coconet::PlanStep& step, UpdateMemory& memory,
             const coconet::RunSettings& settings, coconet::InstructionSet instruction_set);

  const coconet::StepKernel& kernel() const { return kernel_; }
  // Whether it works on the elements of the arena.
  bool over_elements() const { return over_elements_; }

  // Reads the numbers, forgets reductions.
  void begin();
  // Elements [begin, begin + count) of the arena, all in one region. `sums`: what a collective
  // hands over; `results`: what it gathers; null where the loop's memory is meant. One call at a
  // time.
  void run(const UpdateRegion& region, int64_t begin, int64_t count, const void* sums, void* results);
  // All elements of a region that this rank computes, on the threads of the settings.
  void run_region(const UpdateRegion& region);
  // A loop that is not over elements.
  void run_numbers();
  // Puts the reductions of all elements into the memory's partials.
  void finish();

 private:
  struct Partial {
    int64_t begin = 0;
    int slot = 0;
    double value = 0;
  };
  // What one thread needs.
  struct Scratch {
    std::vector<void*> streams;
    std::vector<double> values;
    std::vector<std::vector<double>> block_partials;  // per reduction
    std::vector<double*> places;
    std::vector<std::vector<Partial>> partials;  // per reduction
  };
  Scratch make_scratch() const;
  void run(Scratch& scratch, const UpdateRegion& region, int64_t begin, int64_t count, const void* sums, void* results);
  void run_piece(Scratch& scratch, const UpdateRegion& region, const UpdatePiece& piece, Range elements,
                 const void* sums, void* results);
  void collect(Scratch& scratch);

  UpdateMemory& memory_;
  int most_threads_;  // 0: all
  coconet::StepKernel kernel_;
  coconet::StageChain chain_;
  std::string gradients_;  // where finished sums lie that no collective hands over
  bool over_elements_ = true;
  bool own_only_ = false;  // computes own elements only
  std::vector<const UpdateMemory::Buffer*> streams_, values_;
  std::vector<double> scalars_;
  std::vector<const double*> numbers_;          // where scalars are; null: not read yet
  std::vector<double*> results_;                // where a loop of numbers puts its own
  Scratch scratch_;                             // the caller's of run()
  std::vector<Scratch> threads_;                // for run_region(), one per thread
  std::vector<std::vector<Partial>> partials_;  // per reduction
};

}  // namespace axonn
