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
    for (const ValueId id : plan_.values().declarations()) check_value(id);
    for (const ValueId id : plan_.values().statements()) check_statement(id);
    for (const PlanStep& step : plan_.steps()) {
      if (step.kind == StepKind::layer) check_layer(step);
      if (step.kind == StepKind::fused) check_fused(step);
    }
  }

 private:
  bool is_sliced(const TensorType& type) const { return type.distribution.is(coconet::Placement::sliced); }

  // Whether a sliced value has blocks of the flat tensor, and not a part of one dim, or of a whole
  // that products read in place.
  bool lies_in_blocks(ValueId id) const {
    if (!plan_.home(id)) return true;
    const PlanBuffer& home = plan_[plan_.home(id)];
    const bool is_view = home.value != id && plan_[id].expression.is(Operation::slice);
    return !home.by_dim && (!is_view || is_sliced(home.type));
  }

  void check_value(ValueId id) {
    const TensorType& type = plan_[id].type;
    const int root = type.distribution.root;
    AXONN_CHECK(!type.distribution.is(coconet::Placement::rooted) || root < ranks_, kWhere, plan_.name(id),
                ": its root must be one of ", ranks_, " ranks, got ", root);
    if (!is_sliced(type) || !lies_in_blocks(id)) return;
    AXONN_CHECK(!sliced_ || *sliced_ == type.shape, kWhere, plan_.name(id), ": all sliced tensors need one shape, got ",
                to_string(type.shape), " beside ", to_string(*sliced_));
    sliced_ = type.shape;
  }

  void check_statement(ValueId id) {
    check_value(id);
    // A slice in the text of a reduction has no name, and other blocks than the result has.
    const TensorType& type = plan_[id].type;
    const Expression& root = plan_[id].expression;
    if (!root.is(OperationKind::reduction) || !is_sliced(type)) return;
    const Shape reduced = program_.type(root.operands()[0]).shape;
    AXONN_CHECK(reduced == type.shape, kWhere, plan_.written(id), ": all sliced tensors need one shape, got ",
                to_string(reduced), " beside ", to_string(type.shape));
  }

  void check_layer(const PlanStep& step) const {
    const PlanValue& layer = plan_[step.statements[0]];
    const bool in_place = std::ranges::none_of(
        layer.operands, [&](ValueId operand) { return is_sliced(plan_[operand].type) && lies_in_blocks(operand); });
    AXONN_CHECK(layer.expression.is(Operation::matmul) && !is_sliced(layer.type) && in_place, kWhere, step.name,
                ": needs a matmul of whole operands, or of tensors and slices of tensors that ",
                "are cut along the dim that it sums, got ", program_.written(layer.expression));
  }

  void check_fused(const PlanStep& step) const {
    if (!step.mover) return;
    const PlanValue& mover = plan_[step.mover];
    AXONN_CHECK(!mover.is_number() || !mover.expression.is(Operation::send), kWhere, "fuse ", step.name, ": ",
                mover.name, " is a number; leave its send out of the section");
  }

  const SchedulePlan& plan_;
  const Program& program_;
  int ranks_;
  std::optional<Shape> sliced_;  // the shape of sliced tensors
};

}  // namespace

void check_runs(const SchedulePlan& plan, int ranks) { PlanChecks(plan, ranks).run(); }

}  // namespace axonn
