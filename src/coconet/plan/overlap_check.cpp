#include "coconet/plan/overlap_check.hpp"

#include <algorithm>
#include <vector>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.plan";

bool communicates(const PlanStep& step) { return step.kind == StepKind::collective || step.kind == StepKind::fused; }

std::string names_of(std::span<const PlanStep> steps) {
  std::string text;
  for (const PlanStep& step : steps)
    text += (text.empty() ? "" : ", ") + std::string(axonn::to_string(step.kind)) + " " + step.name;
  return text;
}

// A part is a contiguous share of a rank, and slices in memory are blocks of the whole tensor.
void check_shares(const SchedulePlan& plan, const PlanStep& step, ValueId gathered, const std::string& name) {
  const auto check = [&](ValueId value, bool whole) {
    AXONN_CHECK(
        whole || !plan[value].type.distribution.is(Placement::sliced), kWhere, name, plan.name(value),
        " lies in slices, and other slices than the parts; use a whole tensor and slice(), or leave the overlap "
        "out");
  };
  for (const ValueId statement : step.statements)
    AXONN_CHECK(!plan[statement].expression.is(OperationKind::reduction), kWhere, name, plan.name(statement),
                " is a sum over a slice, and parts are other slices; compute it after the overlap");
  for (const ValueId statement : step.statements) {
    const BufferId home = plan.home(statement);
    check(statement, !home || home == plan.home(gathered));
    for (const ValueId read : plan[statement].references) check(read, std::ranges::count(step.statements, read) > 0);
  }
}

}  // namespace

void OverlapCheck::run() const {
  check_pair();
  check_collective(steps_.back());
  check_producer(steps_.front());
  const PlanStep& last = steps_.back();
  check_shares(plan_, last, last.mover ? last.mover : last.reducer, name_);
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
  const bool whole = collective.kind == StepKind::collective && collective.reducer &&
                     root_of(collective.reducer).is(Operation::all_reduce);
  const bool divided =
      collective.reducer && collective.mover && root_of(collective.reducer).is(Operation::reduce_scatter);
  AXONN_CHECK(whole || divided, kWhere, name_, collective.name,
              " must be an all_reduce, or a reduce_scatter fused with computations and an all_gather");
}

void OverlapCheck::check_producer(const PlanStep& producer) const {
  const ValueId value = summed();
  AXONN_CHECK(std::ranges::count(producer.statements, value) > 0, kWhere, name_, plan_.name(steps_.back().reducer),
              " sums ", plan_.name(value), ", which ", producer.name, " does not compute; leave the overlap out");
  const Expression& root = root_of(value);
  const bool rows = root.is(Operation::matmul), elements = producer.kind == StepKind::kernel &&
                                                           !root.is(OperationKind::reduction) &&
                                                           !plan_[value].type.is_scalar();
  AXONN_CHECK(rows || elements, kWhere, name_, "parts of ", program_.written(root),
              " cannot follow the messages, only rows of a matmul and elements of computations can; leave the overlap "
              "out");
}

void TransferCheck::run() const {
  check_members();
  if (!step_.reducer) {
    const ValueId sent = plan_[step_.mover].operands[0];
    const BufferId home = plan_.home(sent);
    AXONN_CHECK(home && !plan_[home].type.distribution.is(Placement::sliced), kWhere, name_, plan_.name(sent),
                " lies in slices, and other slices than the parts; send a slice() of a whole value, overlap its "
                "reduce_scatter too, or leave the overlap out");
    return;
  }
  check_shares(plan_, step_, step_.mover, name_);
  check_slices();
}

void TransferCheck::check_members() const {
  std::string got;
  bool others = false;
  for (const ValueId statement : step_.statements) {
    const Expression& root = root_of(statement);
    got += (got.empty() ? "" : ", ") + plan_.name(statement) + " = " + program_.written(root);
    others = others || (is_computed(statement) && (root.is(OperationKind::layer) || root.is(OperationKind::send) ||
                                                   root.is(OperationKind::collective) || root.is(Operation::update)));
    const Section* section = program_.section_of(plan_.name(statement));
    others = others || (is_computed(statement) && section != program_.section_of(plan_.name(step_.mover)));
  }
  const bool computes = std::ranges::any_of(step_.statements, [&](const auto& one) { return is_computed(one); });
  const bool gathers = step_.arrival && plan_[step_.arrival].operands[0] == step_.mover;
  const bool reduces = step_.reducer && root_of(step_.reducer).is(Operation::reduce_scatter) &&
                       root_of(step_.reducer).attributes().reduction == ReduceOp::sum;
  AXONN_CHECK(gathers && !others && (reduces || (!step_.reducer && !computes)), kWhere, name_,
              "needs reduce_scatter(+, ...), computations fused with one send, and the all_gather of what it sends, or "
              "only the last two, got ",
              got, "; leave other members out");
}

// Sums, results and what arrives are in messages, of one type.
void TransferCheck::check_slices() const {
  for (const ValueId statement : step_.statements) {
    if (statement == step_.arrival) continue;
    AXONN_CHECK(!plan_.home(statement), kWhere, name_, plan_.name(statement),
                " lies in slices, and other slices than the parts, because others read it; leave the overlap out");
  }
  const TensorType &sums = plan_[step_.reducer].type, &sent = plan_[step_.mover].type;
  AXONN_CHECK(sums.element == sent.element, kWhere, name_, "needs one type of what is summed and sent, got ",
              sums.to_string(), " and ", sent.to_string(), "; cast after the overlap");
}

}  // namespace axonn::coconet
