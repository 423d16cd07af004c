#include "overlap/execute/plan_checks.hpp"

#include <algorithm>
#include <optional>

#include "axonn/core/error.hpp"

namespace axonn {
using namespace coconet;
namespace {

constexpr const char* kWhere = "overlap.executor";

class PlanChecks {
 public:
  PlanChecks(const SchedulePlan& plan, int ranks) : plan_(plan), program_(plan.program()), ranks_(ranks) {}

  void run() {
    for (const Declaration& declaration : program_.declarations()) check_value(declaration.name);
    for (const Statement& statement : program_.statements()) check_statement(statement);
    for (const PlanStep& step : plan_.steps()) {
      if (step.kind == StepKind::layer) check_layer(step);
      if (step.kind == StepKind::fused) check_fused(step);
    }
  }

 private:
  bool is_sliced(const TensorType& type) const { return type.distribution.is(coconet::Placement::sliced); }

  // Whether a sliced value has blocks of the flat tensor, and not a part of one dim, or of a whole
  // that products read in place.
  bool lies_in_blocks(const std::string& value) const {
    const auto home = std::ranges::find(plan_.buffers(), plan_.home(value), &PlanBuffer::name);
    if (home == plan_.buffers().end()) return true;
    const Statement* const statement = program_.find_statement(value);
    const bool is_view = statement != nullptr && home->name != value && statement->expression.is(Operation::slice);
    return !home->by_dim && (!is_view || is_sliced(home->type));
  }

  void check_value(const std::string& value) {
    const TensorType& type = program_.type(value);
    const int root = type.distribution.root;
    AXONN_CHECK(!type.distribution.is(coconet::Placement::rooted) || root < ranks_, kWhere, value,
                ": its root must be one of ", ranks_, " ranks, got ", root);
    if (!is_sliced(type) || !lies_in_blocks(value)) return;
    AXONN_CHECK(!sliced_ || *sliced_ == type.shape, kWhere, value, ": all sliced tensors need one shape, got ",
                to_string(type.shape), " beside ", to_string(*sliced_));
    sliced_ = type.shape;
  }

  void check_statement(const Statement& statement) {
    check_value(statement.name);
    // A slice in the text of a reduction has no name, and other blocks than the result has.
    const TensorType& type = program_.type(statement.name);
    if (!statement.expression.is(OperationKind::reduction) || !is_sliced(type)) return;
    const Shape reduced = program_.type(statement.expression.operands()[0]).shape;
    AXONN_CHECK(reduced == type.shape, kWhere, program_.written(statement.name),
                ": all sliced tensors need one shape, got ", to_string(reduced), " beside ", to_string(type.shape));
  }

  void check_layer(const PlanStep& step) const {
    const Expression& root = program_.statement(step.statements[0]).expression;
    const bool in_place = std::ranges::none_of(root.operands(), [&](const Expression& operand) {
      return is_sliced(program_.type(operand)) && lies_in_blocks(operand.name());
    });
    AXONN_CHECK(root.is(Operation::matmul) && !is_sliced(program_.type(root)) && in_place, kWhere, step.name,
                ": needs a matmul of whole operands, or of tensors and slices of tensors that ",
                "are cut along the dim that it sums, got ", program_.written(root));
  }

  void check_fused(const PlanStep& step) const {
    if (step.mover.empty()) return;
    const TensorType& type = program_.type(step.mover);
    const bool number = type.is_scalar() && type.distribution.is(coconet::Placement::replicated);
    AXONN_CHECK(!number || !program_.statement(step.mover).expression.is(Operation::send), kWhere, "fuse ", step.name,
                ": ", step.mover, " is a number; leave its send out of the section");
  }

  const SchedulePlan& plan_;
  const Program& program_;
  int ranks_;
  std::optional<Shape> sliced_;  // the shape of sliced tensors
};

}  // namespace

void check_runs(const SchedulePlan& plan, int ranks) { PlanChecks(plan, ranks).run(); }

}  // namespace axonn
