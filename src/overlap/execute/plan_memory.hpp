#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <c10/util/FunctionRef.h>

#include "axonn/coconet/plan/step_kernel.hpp"
#include "axonn/overlap/step/owned_region.hpp"

namespace axonn {

// Elements that one call of a chain computes: they follow each other in every stream, and what is
// constant along the last dims has one number for them.
struct LoopPiece {
  Range elements;
  int row = 0;                          // in an arena: the parameter's slot
  bool counted = true;                  // sums count its elements that this rank owns
  const OwnedRegion* region = nullptr;  // in an arena; null: this rank owns all
};

// The number that a block of elements adds to a sum.
struct LoopPartial {
  int64_t begin = 0;
  int64_t row = 0;
  double value = 0;
};

// The elements of one step's loop on this rank. Functions are called per piece, not per element.
class LoopMemory {
 public:
  virtual ~LoopMemory() = default;
  // The elements that this rank computes, as tasks for threads. Cuts do not change partial sums.
  virtual std::span<const Range> tasks() const = 0;
  // Ascending. Elements between the pieces are padding.
  virtual void for_each_piece(Range elements, c10::function_ref<void(const LoopPiece&)> visit) const = 0;
  // The piece's first place in every stream, and its range values. Null for a stream that is not in
  // this rank's memory.
  virtual void find(const LoopPiece& piece, std::span<void*> streams, std::span<double> values) const = 0;
  // The partial results of all elements, ascending. They may be changed.
  virtual void store(const coconet::StepKernel::Sum& sum, std::vector<LoopPartial>& partials) = 0;
};

// A rank's buffers and numbers while a plan runs.
class PlanMemory {
 public:
  // The numbers that the program gives values have them. The plan outlives the memory. `ranks`: how
  // many there are, for a program that reads it.
  PlanMemory(const coconet::SchedulePlan& plan, int ranks);
  virtual ~PlanMemory() = default;
  PlanMemory(const PlanMemory&) = delete;
  PlanMemory& operator=(const PlanMemory&) = delete;

  // The elements of a step's loop. They refer to this memory.
  virtual std::unique_ptr<LoopMemory> loop(const coconet::StepKernel& kernel) = 0;
  // UserError unless it is a declared scalar.
  void set(std::string_view scalar, double value);

  // A scalar or a computed number; none: it has no value yet. Of no value: the number of ranks.
  const std::optional<double>& number(coconet::ValueId value) const { return value ? numbers_[value.index()] : ranks_; }
  void set(coconet::ValueId value, double number) { numbers_[value.index()] = number; }

  const coconet::SchedulePlan& plan() const { return plan_; }

 private:
  const coconet::SchedulePlan& plan_;
  std::optional<double> ranks_;
  std::vector<std::optional<double>> numbers_;  // by value
};

// One result per row, each of its partial results in their order.
std::vector<double> combined(ReduceOp op, std::span<const LoopPartial> partials, int64_t rows);

}  // namespace axonn
