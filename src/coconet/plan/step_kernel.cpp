#include "axonn/coconet/plan/step_kernel.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"
#include "coconet/language/typing.hpp"
#include "coconet/plan/expression_kernel.hpp"

namespace axonn::coconet {
namespace {

using Value = PointwiseKernel::Value;
using Stream = PointwiseKernel::Stream;

class KernelBuilder {
 public:
  KernelBuilder(const SchedulePlan& plan, const PlanStep& step)
      : plan_(plan),
        step_(step),
        expressions_(plan.program(), made_,
                     [this](const Expression& reference) { return value_of(computed(plan_.values().of(reference))); }),
        values_(plan.values().size()),
        streams_(plan.buffers().size()) {}

  StepKernel run() {
    choose_loop();
    for (const ValueId id : step_.statements) {
      if (id == step_.arrival)
        continue;
      else if (id == step_.reducer)
        values_[id.index()] = sums(id);
      else if (id == step_.mover)
        gather(id);
      else
        compute(id);
    }
    return std::move(made_);
  }

 private:
  void choose_loop() {
    for (const ValueId id : step_.statements) {
      const PlanValue& value = plan_[id];
      const Expression& root = value.expression;
      const TensorType type = root.is(OperationKind::reduction) ? plan_.program().type(root.operands()[0]) : value.type;
      if (type.group == TensorType::kEveryGroup) continue;
      made_.loop = type.shape;
      made_.distribution = type.distribution;
      return;
    }
  }

  // The finished sums of the section's collective.
  Value sums(ValueId id) {
    const BufferId home = plan_.home(id);
    reduced_ = new_stream(id, home, plan_[id].type);
    made_.reduced_stream = reduced_.index;
    const Value value = made_.kernel.load(reduced_);
    if (!home) return value;
    const Stream stored = stream_of(home, id);
    made_.kernel.store(stored, value);
    made_.kernel.may_share(reduced_, stored);
    return value;
  }

  void gather(ValueId id) {
    const ValueId operand = computed(plan_[id].operands[0]);
    const BufferId home = plan_.home(id);
    const Stream stream = new_stream(id, home, plan_[id].type);
    made_.gathered_stream = stream.index;
    const Value value = value_of(operand);
    made_.kernel.store(stream, value);
    if (step_.arrival) made_.kernel.may_share(reduced_, stream);
    if (home && has_stream(home)) made_.kernel.may_share(streams_[home.index()], stream);
  }

  void compute(ValueId id) {
    const PlanValue& statement = plan_[id];
    const Expression& root = statement.expression;
    if (root.is(OperationKind::reduction)) return reduce(id);
    const Value value = expressions_.build(root.is(Operation::update) ? root.operands()[1] : root);
    values_[id.index()] = value;
    const BufferId home = plan_.home(id);
    if (statement.is_number() && step_.kind == StepKind::scalars) {
      made_.kernel.store(new_stream(id, {}, scalar_type()), expressions_.as(value, ElementType::fp64));
      return;
    }
    if (!home || is_gathered(id) || is_stored_already(id)) return;
    made_.kernel.store(stream_of(home, id), expressions_.as(value, statement.type.element));
  }

  // The collective puts this rank's own part in its place too.
  bool is_gathered(ValueId id) const {
    return step_.mover && plan_[step_.mover].operands[0] == id && plan_.home(step_.mover) == plan_.home(id);
  }

  // An update of a value that this step computes in the tensor's place.
  bool is_stored_already(ValueId id) const {
    const PlanValue& value = plan_[id];
    return value.expression.is(Operation::update) && value.operands[1] && is_inside(value.operands[1]) &&
           plan_.home(value.operands[1]) == plan_.home(id);
  }

  void reduce(ValueId id) {
    const Expression& root = plan_[id].expression;
    const bool is_norm = root.is(Operation::norm);
    Value value = expressions_.build(root.operands()[0]);
    if (is_norm) value = made_.kernel.apply(PointwiseOp::multiply, {value, value});
    const ReduceOp reduction = is_norm ? ReduceOp::sum : root.attributes().reduction;
    made_.kernel.reduce(reduction, value);
    made_.sums.push_back({id, reduction, is_norm, root.attributes().dims});
  }

  // Every stream is a part of one buffer, read where the loop is, and written there.
  Stream new_stream(ValueId value, BufferId buffer, const TensorType& type) {
    made_.streams.push_back({value, buffer, type});
    return made_.kernel.stream(plan_.name(value), type.element);
  }

  bool has_stream(BufferId buffer) const { return streams_[buffer.index()].index >= 0; }

  Stream stream_of(BufferId buffer, ValueId value) {
    AXONN_ASSERT(buffer, plan_.name(value), " is not in memory");
    if (!has_stream(buffer)) streams_[buffer.index()] = new_stream(value, buffer, plan_[value].type);
    return streams_[buffer.index()];
  }

  // A value from outside of the step.
  Value read(ValueId id) {
    const PlanValue& from = plan_[id];
    const TensorType& type = from.type;
    if (from.is_number()) {
      made_.scalars.push_back(id);
      return expressions_.as(made_.kernel.scalar(from.name, ElementType::fp64), type.element);
    }
    if (type.shape != made_.loop && (type.is_scalar() || type.shape.back().is_one())) {
      made_.range_values.push_back({id, plan_.home(id), type});
      return made_.kernel.range_value(from.name, type.element);
    }
    return made_.kernel.load(stream_of(plan_.home(id), id));
  }

  bool is_inside(ValueId id) const { return std::ranges::count(step_.statements, id) > 0; }

  Value value_of(ValueId id) {
    Value& value = values_[id.index()];
    if (value.index >= 0) return value;
    AXONN_ASSERT(!is_inside(id), plan_.name(id), " is read before it is computed");
    return value = read(id);
  }

  // The statement of this step that computes a value. An update whose value is in its tensor's
  // place already is no statement of it, and the tensor has old elements until the loop ends.
  ValueId computed(ValueId id) const { return !is_inside(id) && is_stored_already(id) ? plan_[id].operands[1] : id; }

  const SchedulePlan& plan_;
  const PlanStep& step_;
  StepKernel made_;
  ExpressionKernel expressions_;
  Stream reduced_;               // the finished sums
  std::vector<Value> values_;    // by value, as far as they are read or computed
  std::vector<Stream> streams_;  // by buffer
};

}  // namespace

StepKernel kernel_of(const SchedulePlan& plan, const PlanStep& step) { return KernelBuilder(plan, step).run(); }

}  // namespace axonn::coconet
