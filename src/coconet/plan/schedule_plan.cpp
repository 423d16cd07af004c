#include "axonn/coconet/plan/schedule_plan.hpp"

#include <algorithm>
#include <cstdio>

#include "axonn/core/error.hpp"
#include "coconet/plan/lowering.hpp"

namespace axonn::coconet {
namespace {

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : separator).append(word);
  return text.empty() ? "-" : text;
}

std::string accesses_text(const std::vector<PlanAccess>& accesses) {
  std::vector<std::string> words;
  for (const PlanAccess& access : accesses)
    words.push_back(access.buffer + (access.extent == Extent::part   ? " (part)"
                                     : access.extent == Extent::root ? " (root)"
                                                                     : ""));
  return joined(words, ", ");
}

// The share of a buffer's elements that a rank touches, as the mean over the ranks.
double share(Extent extent, int ranks) { return extent == Extent::whole ? 1.0 : 1.0 / ranks; }

}  // namespace

bool PlanStep::computes() const {
  if (kind != StepKind::transfer) return kind != StepKind::layer && kind != StepKind::collective;
  return statements.size() > (reducer.empty() ? 2u : 3u);  // beside reducer, mover and arrival
}

SchedulePlan::SchedulePlan(Program program) : program_(std::move(program)) { Lowering(*this).run(); }

const std::string& SchedulePlan::home(const std::string& value) const {
  const auto found = homes_.find(value);
  AXONN_ASSERT(found != homes_.end(), "'", value, "'");
  return found->second;
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
    const auto buffer = std::ranges::find(buffers_, access.buffer, &PlanBuffer::name);
    const bool sliced = buffer->type.distribution.is(Placement::sliced);
    counts.memory_bytes += bytes(buffer->type) * (sliced ? 1.0 / ranks : share(access.extent, ranks));
  };
  std::ranges::for_each(step.reads, add_access);
  std::ranges::for_each(step.writes, add_access);
  if (step.kind == StepKind::kernel || step.kind == StepKind::layer) return counts;

  counts.collectives = 1;
  const bool fused = step.kind != StepKind::collective;
  if (!step.reducer.empty()) {
    const Expression& root = program_.statement(step.reducer).expression;
    const double whole = bytes(program_.type(step.reducer));
    const bool both = root.is(Operation::all_reduce);
    counts.bytes_sent += whole * others * (both ? 2 : 1);
    counts.memory_bytes += whole;                                           // contributions
    if (!fused) counts.memory_bytes += whole * (both ? 1.0 : 1.0 / ranks);  // the sums
  }
  if (!step.mover.empty()) {
    const Expression& root = program_.statement(step.mover).expression;
    const double whole = bytes(program_.type(step.mover));
    const bool sends = root.is(Operation::send);
    const double moved =
        whole *
        (sends
             ? share(program_.type(step.mover).distribution.is(Placement::sliced) ? Extent::part : Extent::whole, ranks)
             : others);
    counts.bytes_sent += moved;
    if (step.arrival.empty()) counts.memory_bytes += moved;            // what arrives
    if (!fused) counts.memory_bytes += sends ? moved : whole / ranks;  // what leaves
  }
  if (!step.arrival.empty()) {
    const double whole = bytes(program_.type(step.arrival));
    counts.bytes_sent += whole * others;
    counts.memory_bytes += whole + (step.reducer.empty() ? whole / ranks : 0);
  }
  return counts;
}

PlanCounts SchedulePlan::counts(const SizeValues& sizes, int ranks) const {
  const auto check_root = [&](const std::string& value) {
    const Distribution& lies = program_.type(value).distribution;
    AXONN_CHECK(!lies.is(Placement::rooted) || lies.root < ranks, "coconet.plan", program_.written(value),
                ": its root must be one of ", ranks, " ranks, got ", lies.root);
  };
  for (const Declaration& declaration : program_.declarations()) check_root(declaration.name);
  for (const Statement& statement : program_.statements()) check_root(statement.name);
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

namespace {

std::string step_text(const SchedulePlan& plan, size_t index) {
  const PlanStep& step = plan.steps()[index];
  std::string text = std::to_string(index + 1) + " " + std::string(axonn::to_string(step.kind)) + " " + step.name;
  if (plan.program().parts().groups > 1 && step.group != TensorType::kEveryGroup)
    text += " on " + std::to_string(step.group);
  if (!step.reducer.empty()) {
    const Expression& root = plan.program().statement(step.reducer).expression;
    text += ", " + root.to_string();
  }
  std::vector<std::string> computed;
  for (const std::string& name : step.statements)
    if (name != step.reducer && name != step.mover && name != step.arrival) computed.push_back(name);
  if (!computed.empty() && step.name != computed.front()) text += ", computes " + joined(computed, " ");
  const auto into = [&](const std::string& name) {
    return " into " + (plan.home(name).empty() ? name : plan.home(name));
  };
  if (!step.mover.empty())
    text += ", " + plan.program().statement(step.mover).expression.to_string() +
            (step.arrival.empty() ? into(step.mover) : "");
  if (!step.arrival.empty())
    text +=
        ", " + plan.program().statement(step.arrival).expression.to_string() + into(step.arrival) + ", part by part";
  if (!step.producer.empty()) text += ", part by part with " + step.producer;
  text += "\n    reads " + accesses_text(step.reads) + "; writes " + accesses_text(step.writes) + "; waits for ";
  std::vector<std::string> waits;
  for (const size_t other : step.after) waits.push_back(std::to_string(other + 1));
  return text + joined(waits, ", ") + "\n";
}

std::string counts_text(const PlanCounts& counts) {
  char line[160];
  std::snprintf(line, sizeof line, "%d launches, %.0f bytes sent, %.0f bytes of memory\n", counts.launches,
                counts.bytes_sent, counts.memory_bytes);
  return line;
}

std::string buffers_text(const std::vector<PlanBuffer>& buffers) {
  std::string text = "buffers\n";
  for (const PlanBuffer& buffer : buffers) {
    text += "  " + buffer.name + " " + buffer.type.to_string();
    text += !buffer.declared     ? ", made for the run"
            : buffer.updated     ? ", state"
            : buffer.overwritten ? ", overwritten"
            : buffer.by_dim      ? ", cut along its dim"
                                 : "";
    text += "\n";
  }
  return text;
}

}  // namespace

std::string SchedulePlan::to_text() const {
  std::string text = "plan of " + program_.name() + "\n" + buffers_text(buffers_) + "steps\n";
  for (size_t i = 0; i < steps_.size(); ++i) text += "  " + step_text(*this, i);
  return text;
}

std::string SchedulePlan::to_text(const SizeValues& sizes, int ranks) const {
  std::string text =
      "plan of " + program_.name() + ", " + std::to_string(ranks) + " ranks\n" + buffers_text(buffers_) + "steps\n";
  for (size_t i = 0; i < steps_.size(); ++i)
    text += "  " + step_text(*this, i) + "    " + counts_text(counts(steps_[i], sizes, ranks));
  const PlanCounts all = counts(sizes, ranks);
  char line[80];
  std::snprintf(line, sizeof line, ", %.0f bytes of state\n", all.state_bytes);
  std::string sum = "per rank: " + counts_text(all);
  sum.pop_back();
  return text + sum + line;
}

}  // namespace axonn::coconet
