#include <cstdio>
#include <string>
#include <vector>

#include "axonn/coconet/plan/schedule_plan.hpp"

namespace axonn::coconet {
namespace {

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : separator).append(word);
  return text.empty() ? "-" : text;
}

std::string accesses_text(const SchedulePlan& plan, const std::vector<PlanAccess>& accesses) {
  std::vector<std::string> words;
  for (const PlanAccess& access : accesses)
    words.push_back(plan.name(access.buffer) + (access.extent == Extent::part   ? " (part)"
                                                : access.extent == Extent::root ? " (root)"
                                                                                : ""));
  return joined(words, ", ");
}

std::string step_text(const SchedulePlan& plan, size_t index) {
  const PlanStep& step = plan.steps()[index];
  std::string text = std::to_string(index + 1) + " " + std::string(axonn::to_string(step.kind)) + " " + step.name;
  if (plan.program().parts().groups > 1 && step.group != TensorType::kEveryGroup)
    text += " on " + std::to_string(step.group);
  if (step.reducer) text += ", " + plan[step.reducer].expression.to_string();
  std::vector<std::string> computed;
  for (const ValueId id : step.statements)
    if (id != step.reducer && id != step.mover && id != step.arrival) computed.push_back(plan.name(id));
  if (!computed.empty() && step.name != computed.front()) text += ", computes " + joined(computed, " ");
  const auto into = [&](ValueId id) { return " into " + (plan.home(id) ? plan.name(plan.home(id)) : plan.name(id)); };
  if (step.mover) text += ", " + plan[step.mover].expression.to_string() + (step.arrival ? "" : into(step.mover));
  if (step.arrival) text += ", " + plan[step.arrival].expression.to_string() + into(step.arrival) + ", part by part";
  if (step.by_parts) text += ", part by part with " + plan.steps()[index - 1].name;
  text += "\n    reads " + accesses_text(plan, step.reads) + "; writes " + accesses_text(plan, step.writes) +
          "; waits for ";
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

std::string buffers_text(const SchedulePlan& plan) {
  std::string text = "buffers\n";
  for (const PlanBuffer& buffer : plan.buffers()) {
    text += "  " + plan.name(buffer.value) + " " + buffer.type.to_string();
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
  std::string text = "plan of " + program_.name() + "\n" + buffers_text(*this) + "steps\n";
  for (size_t i = 0; i < steps_.size(); ++i) text += "  " + step_text(*this, i);
  return text;
}

std::string SchedulePlan::to_text(const SizeValues& sizes, int ranks) const {
  std::string text =
      "plan of " + program_.name() + ", " + std::to_string(ranks) + " ranks\n" + buffers_text(*this) + "steps\n";
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
