#pragma once

#include <utility>
#include <vector>

#include "axonn/coconet/plan/step_kernel.hpp"
#include "overlap/execute/executor_memory.hpp"

namespace axonn {

// The loop of one step on one rank: its stage chain over ranges of elements. run() may be called
// from the thread that moves a collective; calls do not overlap.
class StepLoop {
 public:
  StepLoop(const coconet::SchedulePlan& plan, const coconet::PlanStep& step, ExecutorMemory& memory);

  // Reads the numbers, forgets sums.
  void begin();
  // Elements [begin, begin + count) of the loop's shape, which this rank holds. `sums`: what a
  // collective hands over; `results`: what it gathers. Null where the step has none.
  void run(int64_t begin, int64_t count, const void* sums, void* results);
  // All elements that this rank computes, on the threads of the options.
  void run_all();
  // A step of scalars: its results.
  void run_numbers(std::vector<double>& results);
  // Stores the sums of all elements.
  void finish();

  int64_t count() const { return count_; }
  const coconet::StepKernel& kernel() const { return kernel_; }

 private:
  // Where a value that is not as large as the loop has the element of the loop's element i.
  struct Broadcast {
    std::vector<int64_t> strides;  // per dim of the loop; 0 where its size is 1
  };
  struct Partial {
    int64_t begin = 0;
    double value = 0;
  };
  // What one thread needs.
  struct Scratch {
    std::vector<void*> streams;
    std::vector<double> values;
    std::vector<coconet::MaskInput> masks;
    std::vector<std::vector<double>> call_partials;  // per sum
    std::vector<double*> partial_places;
    std::vector<std::vector<Partial>> partials;  // per sum
  };

  void check_sums() const;
  Broadcast broadcast_of(const coconet::TensorType& type) const;
  int64_t offset_in(const Broadcast& broadcast, int64_t element) const;
  std::vector<Range> tasks() const;
  void run(Scratch& scratch, int64_t begin, int64_t count, const void* sums, void* results);
  void run_piece(Scratch& scratch, int64_t begin, int64_t count, const void* sums, void* results);
  void store_sum(const coconet::StepKernel::Sum& sum, std::vector<Partial>& partials);

  ExecutorMemory& memory_;
  const coconet::SchedulePlan& plan_;
  const coconet::Program& program_;
  coconet::StepKernel kernel_;
  coconet::StageChain chain_;
  coconet::Extents extents_;
  int64_t count_ = 1;
  int64_t piece_ = 0;  // a run does not cross multiples of it; 0: no limit
  std::vector<Broadcast> stream_broadcasts_, value_broadcasts_;
  std::vector<bool> is_broadcast_;  // per stream

  std::vector<double> scalars_;
  Scratch scratch_;               // the caller's of run()
  std::vector<Scratch> threads_;  // for run_all(), one per thread; each as scratch_ at first
};

}  // namespace axonn
