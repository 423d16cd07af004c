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
void check_shares(const SchedulePlan& plan, const PlanStep& step, const std::string& gathered,
                  const std::string& name) {
  const Program& program = plan.program();
  const auto check = [&](const std::string& value, bool whole) {
    AXONN_CHECK(
        whole || !program.type(value).distribution.is(Placement::sliced), kWhere, name, value,
        " lies in slices, and other slices than the parts; use a whole tensor and slice(), or leave the overlap "
        "out");
  };
  for (const std::string& statement : step.statements)
    AXONN_CHECK(!program.statement(statement).expression.is(OperationKind::reduction), kWhere, name, statement,
                " is a sum over a slice, and parts are other slices; compute it after the overlap");
  for (const std::string& statement : step.statements) {
    const std::string& home = plan.home(statement);
    check(statement, home.empty() || home == plan.home(gathered));
    program.statement(statement).expression.for_each_reference(
        [&](const std::string& read) { check(read, std::ranges::count(step.statements, read) > 0); });
  }
}

}  // namespace

void OverlapCheck::run() const {
  check_pair();
  check_collective(steps_.back());
  check_producer(steps_.front());
  const PlanStep& last = steps_.back();
  check_shares(plan_, last, last.mover.empty() ? last.reducer : last.mover, name_);
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
  AXONN_CHECK(rows || elements, kWhere, name_, "parts of ", program_.written(root),
              " cannot follow the messages, only rows of a matmul and elements of computations can; leave the overlap "
              "out");
}

void TransferCheck::run() const {
  check_members();
  if (step_.reducer.empty()) {
    const std::string& sent = root_of(step_.mover).operands()[0].name();
    const auto home = std::ranges::find(plan_.buffers(), plan_.home(sent), &PlanBuffer::name);
    AXONN_CHECK(home != plan_.buffers().end() && !home->type.distribution.is(Placement::sliced), kWhere, name_, sent,
                " lies in slices, and other slices than the parts; send a slice() of a whole value, overlap its "
                "reduce_scatter too, or leave the overlap out");
    return;
  }
  check_shares(plan_, step_, step_.mover, name_);
  check_slices();
}

void TransferCheck::check_members() const {
  std::vector<std::string> computed;
  std::string got;
  bool others = false;
  for (const std::string& statement : step_.statements) {
    const Expression& root = root_of(statement);
    got += (got.empty() ? "" : ", ") + statement + " = " + program_.written(root);
    others = others || (is_computed(statement) && (root.is(OperationKind::layer) || root.is(OperationKind::send) ||
                                                   root.is(OperationKind::collective) || root.is(Operation::update)));
    const Section* section = program_.section_of(statement);
    others = others || (is_computed(statement) && section != program_.section_of(step_.mover));
  }
  const bool computes = std::ranges::any_of(step_.statements, [&](const auto& one) { return is_computed(one); });
  const bool gathers =
      !step_.arrival.empty() && root_of(step_.arrival).operands()[0] == Expression::reference(step_.mover);
  const bool reduces = !step_.reducer.empty() && root_of(step_.reducer).is(Operation::reduce_scatter) &&
                       root_of(step_.reducer).attributes().reduction == ReduceOp::sum;
  AXONN_CHECK(gathers && !others && (reduces || (step_.reducer.empty() && !computes)), kWhere, name_,
              "needs reduce_scatter(+, ...), computations fused with one send, and the all_gather of what it sends, or "
              "only the last two, got ",
              got, "; leave other members out");
}

// Sums, results and what arrives are in messages, of one type.
void TransferCheck::check_slices() const {
  for (const std::string& statement : step_.statements) {
    if (statement == step_.arrival) continue;
    AXONN_CHECK(plan_.home(statement).empty(), kWhere, name_, statement,
                " lies in slices, and other slices than the parts, because others read it; leave the overlap out");
  }
  const TensorType &sums = program_.type(step_.reducer), &sent = program_.type(step_.mover);
  AXONN_CHECK(sums.element == sent.element, kWhere, name_, "needs one type of what is summed and sent, got ",
              sums.to_string(), " and ", sent.to_string(), "; cast after the overlap");
}

}  // namespace axonn::coconet
