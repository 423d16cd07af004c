#include "overlap/plan/overlap_check.hpp"

#include <algorithm>
#include <vector>

#include "axonn/core/error.hpp"

namespace axonn::overlap {
namespace {

constexpr const char* kWhere = "overlap.plan";

bool communicates(const PlanStep& step) { return step.kind == StepKind::collective || step.kind == StepKind::fused; }

std::string names_of(std::span<const PlanStep> steps) {
  std::string text;
  for (const PlanStep& step : steps)
    text += (text.empty() ? "" : ", ") + std::string(axonn::to_string(step.kind)) + " " + step.name;
  return text;
}

}  // namespace

void OverlapCheck::run() const {
  check_pair();
  check_collective(steps_.back());
  check_producer(steps_.front());
  check_shares(steps_.back());
}

void OverlapCheck::check_pair() const {
  std::vector<std::string> collectives;
  for (const PlanStep& step : steps_)
    if (communicates(step)) collectives.push_back(step.name);
  AXONN_CHECK(collectives.size() < 2, kWhere, name_, collectives.front(), " and ", collectives.back(),
              " are in one queue, and would wait for each other in a circle; fuse them into one collective");
  AXONN_CHECK(steps_.size() == 2 && communicates(steps_.back()), kWhere, name_,
              "needs one producer and then one collective that sums its value, got ", names_of(steps_),
              "; fuse the computations before it, and those after it with it");
}

void OverlapCheck::check_collective(const PlanStep& collective) const {
  const bool whole = collective.kind == StepKind::collective && !collective.reducer.empty() &&
                     root_of(collective.reducer).is(Operation::all_reduce);
  const bool divided = !collective.reducer.empty() && !collective.mover.empty() &&
                       root_of(collective.reducer).is(Operation::reduce_scatter);
  AXONN_CHECK(whole || divided, kWhere, name_, collective.name,
              " must be an all_reduce, or a reduce_scatter fused with computations and an all_gather");
}

void OverlapCheck::check_producer(const PlanStep& producer) const {
  const std::string& value = summed();
  AXONN_CHECK(std::ranges::count(producer.statements, value) > 0, kWhere, name_, steps_.back().reducer, " sums ", value,
              ", which ", producer.name, " does not compute; leave the overlap out");
  const Expression& root = root_of(value);
  const bool rows = root.is(Operation::matmul), elements = producer.kind == StepKind::kernel &&
                                                           !root.is(OperationKind::reduction) &&
                                                           !program_.type(value).is_scalar();
  AXONN_CHECK(rows || elements, kWhere, name_, "parts of ", root.to_string(),
              " cannot follow the messages, only rows of a matmul and elements of computations can; leave the overlap "
              "out");
}

// A part is a contiguous share of a rank, and slices in memory are blocks of the whole tensor.
void OverlapCheck::check_shares(const PlanStep& collective) const {
  const auto check = [&](const std::string& value, bool whole) {
    AXONN_CHECK(
        whole || !program_.type(value).distribution.is(Placement::sliced), kWhere, name_, value,
        " lies in slices, and other slices than the parts; use a whole tensor and slice(), or leave the overlap "
        "out");
  };
  for (const std::string& statement : collective.statements)
    AXONN_CHECK(!root_of(statement).is(OperationKind::reduction), kWhere, name_, statement,
                " is a sum over a slice, and parts are other slices; compute it after the overlap");
  const std::string& gathered = collective.mover.empty() ? collective.reducer : collective.mover;
  for (const std::string& statement : collective.statements) {
    const std::string& home = plan_.home(statement);
    check(statement, home.empty() || home == plan_.home(gathered));
    root_of(statement).for_each_reference(
        [&](const std::string& read) { check(read, std::ranges::count(collective.statements, read) > 0); });
  }
}

}  // namespace axonn::overlap
