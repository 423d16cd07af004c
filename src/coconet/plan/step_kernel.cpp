#include "axonn/coconet/plan/step_kernel.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "axonn/coconet/language/typing.hpp"
#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

using Value = PointwiseKernel::Value;
using Stream = PointwiseKernel::Stream;

constexpr const char* kWhere = "coconet.kernel";

// The others have no stage of their own, or no value.
constexpr std::pair<Operation, PointwiseOp> kPointwise[] = {{Operation::add, PointwiseOp::add},
                                                            {Operation::subtract, PointwiseOp::subtract},
                                                            {Operation::multiply, PointwiseOp::multiply},
                                                            {Operation::divide, PointwiseOp::divide},
                                                            {Operation::negate, PointwiseOp::negate},
                                                            {Operation::fma, PointwiseOp::fma},
                                                            {Operation::power, PointwiseOp::power},
                                                            {Operation::square_root, PointwiseOp::square_root},
                                                            {Operation::exponential, PointwiseOp::exponential},
                                                            {Operation::logarithm, PointwiseOp::logarithm},
                                                            {Operation::absolute, PointwiseOp::absolute},
                                                            {Operation::maximum, PointwiseOp::maximum},
                                                            {Operation::minimum, PointwiseOp::minimum},
                                                            {Operation::tanh, PointwiseOp::tanh},
                                                            {Operation::relu, PointwiseOp::relu},
                                                            {Operation::gelu, PointwiseOp::gelu},
                                                            {Operation::sigmoid, PointwiseOp::sigmoid},
                                                            {Operation::less, PointwiseOp::less},
                                                            {Operation::less_equal, PointwiseOp::less_equal},
                                                            {Operation::greater, PointwiseOp::greater},
                                                            {Operation::greater_equal, PointwiseOp::greater_equal},
                                                            {Operation::equal, PointwiseOp::equal},
                                                            {Operation::not_equal, PointwiseOp::not_equal},
                                                            {Operation::select, PointwiseOp::select}};

PointwiseOp pointwise_op(Operation operation) {
  const auto* const row = std::ranges::find(kPointwise, operation, &std::pair<Operation, PointwiseOp>::first);
  AXONN_ASSERT(row != std::end(kPointwise), "no stage computes ", info(operation).name);
  return row->second;
}

class KernelBuilder {
 public:
  KernelBuilder(const SchedulePlan& plan, const PlanStep& step) : plan_(plan), program_(plan.program()), step_(step) {
    inside_.insert(step.statements.begin(), step.statements.end());
  }

  StepKernel run() {
    choose_loop();
    for (const std::string& name : step_.statements) {
      if (name == step_.arrival)
        continue;
      else if (name == step_.reducer)
        values_[name] = sums(name);
      else if (name == step_.mover)
        gather(name);
      else
        compute(program_.statement(name));
    }
    return std::move(made_);
  }

 private:
  bool is_number(const TensorType& type) const {
    return type.is_scalar() && type.distribution.is(Placement::replicated);
  }

  void choose_loop() {
    for (const std::string& name : step_.statements) {
      const Expression& root = program_.statement(name).expression;
      const TensorType type =
          root.is(OperationKind::reduction) ? program_.type(root.operands()[0]) : program_.type(name);
      if (type.group == TensorType::kEveryGroup) continue;
      made_.loop = type.shape;
      made_.distribution = type.distribution;
      return;
    }
  }

  // The finished sums of the section's collective.
  Value sums(const std::string& name) {
    const TensorType& type = program_.type(name);
    const Stream stream = new_stream(name, plan_.home(name), type);
    made_.reduced_stream = stream.index;
    reduced_ = stream;
    const Value value = made_.kernel.load(stream);
    const std::string& home = plan_.home(name);
    if (home.empty()) return value;
    made_.kernel.store(stream_of(home, name), value);
    made_.kernel.may_share(stream, stream_of(home, name));
    return value;
  }

  void gather(const std::string& name) {
    const std::string& operand = computed(program_.statement(name).expression.operands()[0].name());
    const Stream stream = new_stream(name, plan_.home(name), program_.type(name));
    made_.gathered_stream = stream.index;
    const Value value = value_of(operand);
    made_.kernel.store(stream, value);
    if (!step_.arrival.empty()) made_.kernel.may_share(reduced_, stream);
    if (const auto own = streams_.find(plan_.home(name)); own != streams_.end())
      made_.kernel.may_share(own->second, stream);
  }

  void compute(const Statement& statement) {
    const Expression& root = statement.expression;
    if (root.is(OperationKind::reduction)) return reduce(statement);
    const Value value = build(root.is(Operation::update) ? root.operands()[1] : root);
    values_[statement.name] = value;
    const std::string& home = plan_.home(statement.name);
    const bool number = is_number(program_.type(statement.name));
    if (number && step_.kind == StepKind::scalars) {
      made_.kernel.store(new_stream(statement.name, "", scalar_type()), as(value, ElementType::fp64));
      return;
    }
    if (home.empty() || is_gathered(statement.name) || is_stored_already(root, home)) return;
    made_.kernel.store(stream_of(home, statement.name), as(value, program_.type(statement.name).element));
  }

  // The collective puts this rank's own part in its place too.
  bool is_gathered(const std::string& name) const {
    if (step_.mover.empty()) return false;
    const Expression& root = program_.statement(step_.mover).expression;
    return root.operands()[0].name() == name && plan_.home(step_.mover) == plan_.home(name);
  }

  bool is_stored_already(const Expression& root, const std::string& home) const {
    return root.is(Operation::update) && root.operands()[1].is(Operation::reference) &&
           inside_.contains(root.operands()[1].name()) && plan_.home(root.operands()[1].name()) == home;
  }

  void reduce(const Statement& statement) {
    const Expression& root = statement.expression;
    const bool is_norm = root.is(Operation::norm);
    Value value = build(root.operands()[0]);
    if (is_norm) value = made_.kernel.apply(PointwiseOp::multiply, {value, value});
    const ReduceOp reduction = is_norm ? ReduceOp::sum : root.attributes().reduction;
    made_.kernel.reduce(reduction, value);
    made_.sums.push_back({statement.name, reduction, is_norm, root.attributes().dims});
  }

  // Every stream is a part of one buffer, read where the loop is, and written there.
  Stream new_stream(const std::string& value, const std::string& buffer, const TensorType& type) {
    made_.streams.push_back({value, buffer, type});
    return made_.kernel.stream(value, type.element);
  }

  Stream stream_of(const std::string& buffer, const std::string& value) {
    if (const auto found = streams_.find(buffer); found != streams_.end()) return found->second;
    return streams_[buffer] = new_stream(value, buffer, program_.type(value));
  }

  // A value from outside of the step.
  Value read(const std::string& name) {
    if (const auto known = values_.find(name); known != values_.end()) return known->second;
    const TensorType& type = program_.type(name);
    Value value;
    if (is_number(type)) {
      made_.scalars.push_back(name);
      value = made_.kernel.scalar(name, ElementType::fp64);
      value = as(value, type.element);
    } else if (type.shape != made_.loop && (type.is_scalar() || type.shape.back().is_one())) {
      made_.range_values.push_back({name, plan_.home(name), type});
      value = made_.kernel.range_value(name, type.element);
    } else {
      value = made_.kernel.load(stream_of(plan_.home(name), name));
    }
    return values_[name] = value;
  }

  Value as(Value value, ElementType type) {
    return made_.kernel.type_of(value) == type ? value : made_.kernel.cast(value, type);
  }

  Value build(const Expression& expression) {
    switch (expression.operation()) {
      case Operation::reference:
        return value_of(computed(expression.name()));
      case Operation::constant:
        return made_.kernel.constant(expression.number(), ElementType::fp64);
      case Operation::ranks:
        return ranks();
      case Operation::slice:
      case Operation::load:
        return build(expression.operands()[0]);
      case Operation::cast:
        return as(build(expression.operands()[0]), expression.attributes().element);
      case Operation::dropout:
        return dropped(expression);
      case Operation::sign:
        return sign(expression);
      default:
        return applied(expression);
    }
  }

  Value value_of(const std::string& name) { return inside_.contains(name) ? values_.at(name) : read(name); }

  // The statement of this step that computes a value. An update whose value is in its tensor's
  // place already is no statement of it, and the tensor has old elements until the loop ends.
  const std::string& computed(const std::string& name) const {
    const Statement* const statement = program_.find_statement(name);
    if (statement == nullptr || inside_.contains(name)) return name;
    const Expression& root = statement->expression;
    return root.is(Operation::update) && is_stored_already(root, plan_.home(name)) ? root.operands()[1].name() : name;
  }

  Value ranks() {
    const auto known = values_.find(StepKernel::kRanks);
    if (known != values_.end()) return known->second;
    made_.scalars.push_back(StepKernel::kRanks);
    return values_[StepKernel::kRanks] = made_.kernel.scalar(StepKernel::kRanks, ElementType::fp64);
  }

  Value dropped(const Expression& expression) {
    const Attributes& attributes = expression.attributes();
    const Value x = build(expression.operands()[0]);
    const ElementType type = made_.kernel.type_of(x);
    const double p = attributes.probability;
    if (p == 0) return x;
    AXONN_CHECK(program_.type(expression.operands()[0]).shape == made_.loop && !made_.loop.empty(), kWhere,
                program_.written(expression), ": dropout needs a tensor of the loop's shape ", to_string(made_.loop),
                ", got ", to_string(program_.type(expression.operands()[0]).shape));
    const Value mask = made_.kernel.dropout_mask("dropout." + std::to_string(made_.masks.size()));
    made_.masks.push_back({p, attributes.stream});
    const Value kept =
        made_.kernel.apply(PointwiseOp::not_equal, {mask, made_.kernel.constant(0, made_.kernel.type_of(mask))});
    const Value scaled = made_.kernel.apply(PointwiseOp::multiply, {x, made_.kernel.constant(1 / (1 - p), type)});
    return made_.kernel.apply(PointwiseOp::select, {kept, scaled, made_.kernel.constant(0, type)});
  }

  // No stage of its own: two comparisons.
  Value sign(const Expression& expression) {
    const Value x = build(expression.operands()[0]);
    const ElementType type = made_.kernel.type_of(x);
    const Value zero = made_.kernel.constant(0, type);
    const auto either = [&](PointwiseOp compares, double number, Value otherwise) {
      const Value holds = made_.kernel.apply(compares, {x, zero});
      return made_.kernel.apply(PointwiseOp::select, {holds, made_.kernel.constant(number, type), otherwise});
    };
    return either(PointwiseOp::greater, 1, either(PointwiseOp::less, -1, x));
  }

  // Operands have the type of the tensors among them; numbers are rounded to it.
  Value applied(const Expression& expression) {
    const bool selects = expression.is(Operation::select);
    std::optional<ElementType> type;
    for (size_t i = selects ? 1 : 0; i < expression.operands().size(); ++i) {
      const TensorType operand = program_.type(expression.operands()[i]);
      if (!operand.is_scalar()) type = operand.element;
    }
    std::vector<Value> operands;
    for (const Expression& operand : expression.operands()) operands.push_back(build(operand));
    if (!type) type = number_type(expression, operands, selects);
    for (size_t i = selects ? 1 : 0; i < operands.size(); ++i) operands[i] = as(operands[i], *type);
    return made_.kernel.apply(pointwise_op(expression.operation()), operands);
  }

  ElementType number_type(const Expression& expression, const std::vector<Value>& operands, bool selects) const {
    const ElementType result = program_.type(expression).element;
    return result == ElementType::boolean ? made_.kernel.type_of(operands[selects ? 1 : 0]) : result;
  }

  const SchedulePlan& plan_;
  const Program& program_;
  const PlanStep& step_;
  StepKernel made_;
  std::set<std::string> inside_;
  Stream reduced_;  // the finished sums
  std::map<std::string, Value> values_;
  std::map<std::string, Stream> streams_;
};

}  // namespace

StepKernel kernel_of(const SchedulePlan& plan, const PlanStep& step) { return KernelBuilder(plan, step).run(); }

}  // namespace axonn::coconet
