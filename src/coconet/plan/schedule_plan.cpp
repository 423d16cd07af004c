#include "axonn/coconet/plan/schedule_plan.hpp"

#include <algorithm>
#include <utility>

#include "axonn/core/error.hpp"
#include "coconet/plan/lowering.hpp"
#include "coconet/plan/value_homes.hpp"

namespace axonn::coconet {
namespace {

// The share of a buffer's elements that a rank touches, as the mean over the ranks.
double share(Extent extent, int ranks) { return extent == Extent::whole ? 1.0 : 1.0 / ranks; }

}  // namespace

bool PlanStep::computes() const {
  if (kind != StepKind::transfer) return kind != StepKind::layer && kind != StepKind::collective;
  return statements.size() > (reducer ? 3u : 2u);  // beside reducer, mover and arrival
}

SchedulePlan::SchedulePlan(Program program) : program_(std::move(program)), values_(program_) {
  ValueHomes homes = choose_homes(program_, values_);
  buffers_ = std::move(homes.buffers);
  homes_ = std::move(homes.of);
  steps_ = Lowering(*this).run();
}

ValueId SchedulePlan::value(std::string_view name) const {
  (void)program_.type(name);  // its error
  return values_.find(name);
}

PlanCounts SchedulePlan::counts(const PlanStep& step, const SizeValues& sizes, int ranks) const {
  const auto bytes = [&](const TensorType& type) {
    return static_cast<double>(count_of(extents_of(type.shape, sizes))) * static_cast<double>(bytes_of(type.element));
  };
  const double others = static_cast<double>(ranks - 1) / ranks;
  PlanCounts counts;
  if (step.kind == StepKind::scalars) return counts;
  counts.launches = 1;
  const auto add_access = [&](const PlanAccess& access) {
    const TensorType& type = (*this)[access.buffer].type;
    const bool sliced = type.distribution.is(Placement::sliced);
    counts.memory_bytes += bytes(type) * (sliced ? 1.0 / ranks : share(access.extent, ranks));
  };
  std::ranges::for_each(step.reads, add_access);
  std::ranges::for_each(step.writes, add_access);
  if (step.kind == StepKind::kernel || step.kind == StepKind::layer) return counts;

  counts.collectives = 1;
  const bool fused = step.kind != StepKind::collective;
  if (step.reducer) {
    const PlanValue& sums = values_[step.reducer];
    const double whole = bytes(sums.type);
    const bool both = sums.expression.is(Operation::all_reduce);
    counts.bytes_sent += whole * others * (both ? 2 : 1);
    counts.memory_bytes += whole;                                           // contributions
    if (!fused) counts.memory_bytes += whole * (both ? 1.0 : 1.0 / ranks);  // the sums
  }
  if (step.mover) {
    const PlanValue& mover = values_[step.mover];
    const double whole = bytes(mover.type);
    const bool sends = mover.expression.is(Operation::send);
    const Extent sent = mover.type.distribution.is(Placement::sliced) ? Extent::part : Extent::whole;
    const double moved = whole * (sends ? share(sent, ranks) : others);
    counts.bytes_sent += moved;
    if (!step.arrival) counts.memory_bytes += moved;                   // bytes that arrive
    if (!fused) counts.memory_bytes += sends ? moved : whole / ranks;  // bytes that leave
  }
  if (step.arrival) {
    const double whole = bytes(values_[step.arrival].type);
    counts.bytes_sent += whole * others;
    counts.memory_bytes += whole + (step.reducer ? 0 : whole / ranks);
  }
  return counts;
}

PlanCounts SchedulePlan::counts(const SizeValues& sizes, int ranks) const {
  const auto check_root = [&](ValueId id) {
    const Distribution& lies = values_[id].type.distribution;
    AXONN_CHECK(!lies.is(Placement::rooted) || lies.root < ranks, "coconet.plan", written(id),
                ": its root must be one of ", ranks, " ranks, got ", lies.root);
  };
  std::ranges::for_each(values_.declarations(), check_root);
  std::ranges::for_each(values_.statements(), check_root);
  PlanCounts sum;
  for (const PlanStep& step : steps_) {
    const PlanCounts one = counts(step, sizes, ranks);
    sum.launches += one.launches;
    sum.collectives += one.collectives;
    sum.bytes_sent += one.bytes_sent;
    sum.memory_bytes += one.memory_bytes;
  }
  for (const PlanBuffer& buffer : buffers_) {
    if (!buffer.updated) continue;
    const double whole = static_cast<double>(count_of(extents_of(buffer.type.shape, sizes))) *
                         static_cast<double>(bytes_of(buffer.type.element));
    sum.state_bytes += whole * (buffer.type.distribution.is(Placement::sliced) ? 1.0 / ranks : 1.0);
  }
  return sum;
}

}  // namespace axonn::coconet
