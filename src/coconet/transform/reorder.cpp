#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "coconet/transform/transformation_rules.hpp"

namespace axonn::coconet {
namespace {

// Computes the statements of a reorder on the parts of what a gather gathers.
class Reorder {
 public:
  explicit Reorder(Rewrite& rewrite)
      : rewrite_(rewrite), program_(rewrite.before), gather_(rewrite.free_statement(rewrite.what.names.at(0))) {
    rooted_ = gather_.expression.is(Operation::broadcast);
    rewrite.check(rooted_ || gather_.expression.is(Operation::all_gather), TransformationRule::reorder_gather,
                  program_.written(gather_.expression));
    const Expression& part = gather_.expression.operands().at(0);
    const TensorType type = program_.type(part);
    from_right_ = static_cast<int>(type.shape.size()) - 1 - type.distribution.dim;
    root_ = type.distribution.root;
    parts_.emplace(gather_.name, part);
    collect();
  }

  void run() {
    std::vector<Statement>& statements = rewrite_.parts.statements;
    statements.clear();
    for (const Statement& statement : program_.statements()) {
      if (statement.name == gather_.name) {
        if (needed_whole(statement.name)) statements.push_back(statement);
      } else if (moved_.contains(statement.name)) {
        move(statement);
      } else {
        statements.push_back(statement);
      }
    }
    for (Section& section : rewrite_.parts.sections)
      for (std::string& member : section.members)
        if (const auto part = part_names_.find(member); part != part_names_.end()) member = part->second;
  }

 private:
  void collect() {
    for (auto member = rewrite_.what.names.begin() + 1; member != rewrite_.what.names.end(); ++member) {
      const std::vector<std::string> statements = program_.statements_of(*member);
      if (statements.empty()) (void)program_.type(*member);  // its error
      moved_.insert(statements.begin(), statements.end());
    }
    for (const Section& section : program_.sections()) {
      const auto inside =
          std::ranges::count_if(section.members, [&](const std::string& member) { return moved_.contains(member); });
      rewrite_.check(inside == 0 || inside == std::ssize(section.members), TransformationRule::sections,
                     "'" + section.name + "'");
    }
  }

  // Whether a statement that is not moved reads the value.
  bool needed_whole(const std::string& name) const {
    return program_.is_output(name) || std::ranges::any_of(program_.consumers_of(name), [&](const std::string& reader) {
             return !moved_.contains(reader);
           });
  }

  // A replicated tensor's part beside the parts that are computed.
  Expression part_of(const std::string& name) const {
    const Expression whole = Expression::reference(name);
    const TensorType& type = program_.type(name);
    if (!type.distribution.is(Placement::replicated) || type.is_scalar()) return whole;
    if (rooted_) return load(whole, root_);
    const int dim = static_cast<int>(type.shape.size()) - 1 - from_right_;
    const bool has_dim = dim >= 0 && dim < std::ssize(type.shape);
    return !has_dim || type.shape[static_cast<size_t>(dim)].is_one() ? whole : slice(whole, dim);
  }

  Expression on_parts(const Expression& expression, bool others_too) const {
    if (expression.is(Operation::reference)) {
      const auto part = parts_.find(expression.name());
      if (part != parts_.end()) return part->second;
      return others_too ? part_of(expression.name()) : expression;
    }
    if (expression.operands().empty() || expression.is(OperationKind::part)) return expression;
    std::vector<Expression> operands;
    for (const Expression& operand : expression.operands()) operands.push_back(on_parts(operand, others_too));
    return Expression::of(expression.operation(), std::move(operands), expression.attributes());
  }

  Expression gathered(const std::string& part) const {
    const Expression reference = Expression::reference(part);
    return rooted_ ? broadcast(reference) : all_gather(reference);
  }

  void add(std::string name, Expression expression, const Statement& origin) {
    rewrite_.parts.statements.push_back({std::move(name), std::move(expression), origin.line});
  }

  void move(const Statement& statement) {
    const Expression& root = statement.expression;
    rewrite_.check(has_parts(root) && !slices_parts(root), TransformationRule::reorder_reads,
                   statement.name + " = " + program_.written(root));
    rewrite_.check(!root.is(OperationKind::collective), TransformationRule::reorder_kinds,
                   statement.name + " = " + program_.written(root));
    const std::string part = statement.name + (rooted_ ? ".root" : ".part");
    part_names_[statement.name] = part;
    if (root.is(OperationKind::reduction) && reduces_the_cut(root)) return move_reduction(statement, part);
    parts_.emplace(statement.name, Expression::reference(part));
    if (root.is(Operation::update)) {
      add(part, on_parts(root.operands()[1], true), statement);
      add(statement.name + ".whole", gathered(part), statement);
      add(statement.name, update(root.operands()[0], Expression::reference(statement.name + ".whole")), statement);
      return;
    }
    add(part, on_parts(root, !root.is(OperationKind::layer)), statement);
    if (needed_whole(statement.name)) add(statement.name, gathered(part), statement);
  }

  bool reads_parts(const Expression& expression) const {
    return std::ranges::any_of(parts_, [&](const auto& pair) { return expression.refers_to(pair.first); });
  }

  // Whether there is anything to compute in parts: gathered values, or replicated tensors.
  bool has_parts(const Expression& root) const {
    if (reads_parts(root)) return true;
    const Expression& value = root.is(Operation::update) ? root.operands()[1] : root;
    return !root.is(OperationKind::layer) && !(on_parts(value, true) == value);
  }

  // Whether it takes slices of its own of a value that is to be computed in parts.
  bool slices_parts(const Expression& expression) const {
    if (expression.is(OperationKind::part)) return reads_parts(expression);
    return std::ranges::any_of(expression.operands(), [&](const Expression& operand) { return slices_parts(operand); });
  }

  bool reduces_the_cut(const Expression& root) const {
    if (rooted_) return false;
    const auto dims = static_cast<int>(program_.type(root.operands()[0]).shape.size());
    const std::vector<int>& reduced = root.attributes().dims;
    return reduced.empty() || std::ranges::count(reduced, dims - 1 - from_right_) > 0;
  }

  // Every rank reduces its part, then all ranks reduce what came out.
  void move_reduction(const Statement& statement, const std::string& part) {
    const Expression& root = statement.expression;
    const Expression value = on_parts(root.operands()[0], true);
    const std::vector<int>& dims = root.attributes().dims;
    if (root.is(Operation::norm)) {
      const std::string sum = statement.name + ".sum";
      add(part, reduce_tensor(ReduceOp::sum, value * value, dims), statement);
      add(sum, all_reduce(ReduceOp::sum, Expression::reference(part)), statement);
      add(statement.name, sqrt(Expression::reference(sum)), statement);
      return;
    }
    const ReduceOp reduction = root.attributes().reduction;
    add(part, reduce_tensor(reduction, value, dims), statement);
    add(statement.name, all_reduce(reduction, Expression::reference(part)), statement);
  }

  Rewrite& rewrite_;
  const Program& program_;
  const Statement gather_;
  bool rooted_ = false;
  int from_right_ = 0;  // the dim that is cut, counted from the last one
  int root_ = 0;
  std::set<std::string> moved_;
  std::map<std::string, Expression> parts_;        // whole value -> its part
  std::map<std::string, std::string> part_names_;  // moved statement -> the statement that computes its part
};

}  // namespace

void reorder_past_gather(Rewrite& rewrite) { Reorder(rewrite).run(); }

}  // namespace axonn::coconet
