#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/coconet/plan/plan_values.hpp"
#include "axonn/core/names.hpp"

// How a program runs: which statements become one launch, what lies in memory, who waits for whom.
// Executors run plans; tests and the tuner count them.
namespace axonn::coconet {

enum class StepKind : uint8_t {
  scalars,     // numbers of the host, computed once
  kernel,      // one loop over elements: computations, sums, stores
  layer,       // matmul, conv2d
  collective,  // all_reduce, reduce_scatter, reduce, all_gather, broadcast, send
  fused,       // a collective with the computations of its section
  transfer     // an overlap with a send: reduce_scatter and computations, send, all_gather, part by part
};

// A value in memory. Values that stay in registers, inside of a fused section, have none.
struct PlanBuffer {
  ValueId value;  // the value whose name it has
  TensorType type;
  bool declared = false;     // the caller's; else made for the run
  bool updated = false;      // state: the program changes it
  bool overwritten = false;  // a local tensor in whose place its sum is put
  bool by_dim = false;       // a sliced one whose dim is cut, because only products read it
};

// The part of a buffer that a step touches, per rank.
enum class Extent : uint8_t { whole, part, root };

struct PlanAccess {
  BufferId buffer;
  Extent extent = Extent::whole;
  friend auto operator<=>(const PlanAccess&, const PlanAccess&) = default;
};

struct PlanStep {
  StepKind kind = StepKind::kernel;
  std::string name;                 // the section's or the statement's
  std::vector<ValueId> statements;  // in order
  int group = 0;                    // the group whose ranks run it; a send and a transfer: the one that sends
  ValueId reducer, mover;           // collective, fused: the statements that reduce, and that gather or send
  ValueId arrival;                  // transfer: the statement that gathers what was sent
  bool by_parts = false;            // overlap: it reads parts of the step before it while others are written
  std::vector<PlanAccess> reads;    // by its loop, not by its collective
  std::vector<PlanAccess> writes;
  std::vector<size_t> after;  // the steps that it waits for
  bool computes() const;      // whether it has a loop: kernel_of()
};

// Per rank, as the mean over the ranks of a group. Of several groups, their sum.
struct PlanCounts {
  int launches = 0;  // kernels, layers and collectives
  int collectives = 0;
  double bytes_sent = 0;
  double memory_bytes = 0;  // read and written, without the slots and messages of collectives
  double state_bytes = 0;   // tensors that the program updates
};

class SchedulePlan {
 public:
  // UserError if no executor can run a section as one: a fused section with more than one
  // collective of a kind, or with values that lie in different ways or groups; an overlap other
  // than these two: a producer, a matmul or computations, and one collective that sums its value
  // and gathers; and the transfer of slices to another group: a reduce_scatter with computations or
  // slices of a whole value, a send, and an all_gather.
  explicit SchedulePlan(Program program);

  const Program& program() const { return program_; }
  const PlanValues& values() const { return values_; }
  const std::vector<PlanBuffer>& buffers() const { return buffers_; }
  const std::vector<PlanStep>& steps() const { return steps_; }
  // The value of this name. UserError "no value X, did you mean Y".
  ValueId value(std::string_view name) const;
  // The buffer that holds a value; none if it is a number of the host or stays in registers.
  BufferId home(ValueId value) const { return homes_[value.index()]; }

  const PlanValue& operator[](ValueId value) const { return values_[value]; }
  const PlanBuffer& operator[](BufferId buffer) const { return buffers_[buffer.index()]; }
  const std::string& name(ValueId value) const { return values_[value].name; }
  const std::string& name(BufferId buffer) const { return name((*this)[buffer].value); }
  // For errors: a value as the program's text has it.
  std::string written(ValueId value) const { return program_.written(name(value)); }

  // Bytes that a ring of `ranks` moves, and that loops read and write. UserError if a value lies on
  // a rank that is not there.
  PlanCounts counts(const SizeValues& sizes, int ranks) const;
  PlanCounts counts(const PlanStep& step, const SizeValues& sizes, int ranks) const;

  std::string to_text() const;
  // With the counts of every step.
  std::string to_text(const SizeValues& sizes, int ranks) const;

 private:
  Program program_;
  PlanValues values_;
  std::vector<PlanBuffer> buffers_;
  std::vector<BufferId> homes_;  // by value
  std::vector<PlanStep> steps_;
};

}  // namespace axonn::coconet

namespace axonn {

template <>
struct Names<coconet::StepKind> {
  static constexpr Named<coconet::StepKind> all[] = {
      {"scalars", coconet::StepKind::scalars}, {"kernel", coconet::StepKind::kernel},
      {"layer", coconet::StepKind::layer},     {"collective", coconet::StepKind::collective},
      {"fused", coconet::StepKind::fused},     {"transfer", coconet::StepKind::transfer}};
};

}  // namespace axonn
