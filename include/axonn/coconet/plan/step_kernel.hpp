#pragma once

#include <cstdint>
#include <vector>

#include "axonn/coconet/plan/schedule_plan.hpp"
#include "axonn/coconet/stages/pointwise_kernel.hpp"

namespace axonn::coconet {

// The loop of a plan's step: its statements as one pointwise kernel, and what its streams, numbers
// and results are. Works on elements of the loop's shape; an executor says which.
struct StepKernel {
  // A value that the loop reads, or a buffer that it writes.
  struct Operand {
    ValueId value;    // a declared tensor or a statement
    BufferId buffer;  // its home
    TensorType type;
  };
  struct Sum {
    ValueId statement;
    ReduceOp reduction = ReduceOp::sum;
    bool is_norm = false;   // the root of the sum is still to be taken
    std::vector<int> dims;  // the loop's dims, as in the statement; empty: all
  };
  struct Mask {
    double probability = 0;
    int64_t stream = 0;
  };

  PointwiseKernel kernel;
  Shape loop;
  Distribution distribution;          // the distribution of the elements that ranks compute
  std::vector<Operand> streams;       // by the kernel's streams
  std::vector<ValueId> scalars;       // by the kernel's scalars: numbers of the host; none: the number of ranks
  std::vector<Operand> range_values;  // constant along the last dims
  std::vector<Sum> sums;              // by the kernel's reductions
  std::vector<Mask> masks;
  int reduced_stream = -1;   // fused: the finished sums that a collective hands over
  int gathered_stream = -1;  // fused: what it gathers or sends
};

// `step` computes something: scalars, kernel, fused or transfer.
StepKernel kernel_of(const SchedulePlan& plan, const PlanStep& step);

}  // namespace axonn::coconet
