#include <algorithm>
#include <map>
#include <set>

#include "coconet/transform/transformation_rules.hpp"

namespace axonn::coconet {
namespace {

// The inverse of reorder: computes statements on whole values again.
class ReorderBack {
 public:
  explicit ReorderBack(Rewrite& rewrite) : rewrite_(rewrite), program_(rewrite.before) {
    const std::string &gather = rewrite.what.names.at(0), &part = rewrite.what.names.at(1);
    const TensorType type = program_.type(part);
    rooted_ = type.distribution.is(Placement::rooted);
    wholes_.emplace(part, Expression::reference(gather));
    for (auto name = rewrite.what.names.begin() + 2; name != rewrite.what.names.end(); ++name) collect(*name);
  }

  void run() {
    std::vector<Statement>& statements = rewrite_.parts.statements;
    statements.clear();
    const std::string &gather = rewrite_.what.names.at(0), &part = rewrite_.what.names.at(1);
    bool gathered = program_.find_declaration(part) != nullptr;
    if (gathered) statements.push_back(gather_of(gather, part));
    for (const Statement& statement : program_.statements()) {
      if (computes_.contains(statement.name)) {
        const std::string& whole = computes_.at(statement.name);
        check(reads_parts(statement.expression), statement);
        statements.push_back({whole, on_wholes(statement.expression), statement.line});
      } else if (stores_.contains(statement.name)) {
        const Expression& tensor = statement.expression.operands()[0];
        statements.push_back({statement.name, update(tensor, stores_.at(statement.name)), statement.line});
      } else if (!dropped_.contains(statement.name)) {
        for (const auto& [name, whole] : wholes_)
          check(name == part || !statement.expression.refers_to(name), statement);
        statements.push_back(statement);
      }
      if (!gathered && statement.name == part) statements.push_back(gather_of(gather, part));
    }
  }

 private:
  void check(bool holds, const Statement& statement) const {
    rewrite_.check(holds, TransformationRule::reorder_back,
                   statement.name + " = " + program_.written(statement.expression));
  }

  Statement gather_of(const std::string& gather, const std::string& part) const {
    const Expression reference = Expression::reference(part);
    return {gather, rooted_ ? broadcast(reference) : all_gather(reference), 0};
  }

  bool is_gather(const Expression& expression) const {
    return expression.is(rooted_ ? Operation::broadcast : Operation::all_gather);
  }

  // `name` is a gathered value, or an update that stores one.
  void collect(const std::string& name) {
    const Statement* gather = &rewrite_.free_statement(name);
    const Statement* store = nullptr;
    if (gather->expression.is(Operation::update) && gather->expression.operands()[1].is(Operation::reference)) {
      store = gather;
      gather = program_.find_statement(store->expression.operands()[1].name());
    }
    const bool fits = gather != nullptr && is_gather(gather->expression) &&
                      program_.find_statement(gather->expression.operands()[0].name()) != nullptr &&
                      (store == nullptr || program_.consumers_of(gather->name).size() == 1);
    check(fits, store == nullptr ? program_.statement(name) : *store);
    const Statement& part = rewrite_.free_statement(gather->expression.operands()[0].name());
    const std::string whole = store == nullptr ? name : gather->name;
    computes_[part.name] = whole;
    wholes_.emplace(part.name, Expression::reference(whole));
    dropped_.insert(gather->name);
    if (store != nullptr) stores_.emplace(store->name, Expression::reference(whole));
  }

  bool reads_parts(const Expression& expression) const {
    return std::ranges::any_of(wholes_, [&](const auto& pair) { return expression.refers_to(pair.first); });
  }

  Expression on_wholes(const Expression& expression) const {
    if (expression.is(Operation::reference)) {
      const auto whole = wholes_.find(expression.name());
      return whole == wholes_.end() ? expression : whole->second;
    }
    if (expression.is(OperationKind::part)) return expression.operands()[0];
    if (expression.operands().empty()) return expression;
    std::vector<Expression> operands;
    for (const Expression& operand : expression.operands()) operands.push_back(on_wholes(operand));
    return Expression::of(expression.operation(), std::move(operands), expression.attributes());
  }

  Rewrite& rewrite_;
  const Program& program_;
  bool rooted_ = false;
  std::map<std::string, std::string> computes_;  // part -> the whole value that replaces it
  std::map<std::string, Expression> wholes_;     // part -> whole value
  std::map<std::string, Expression> stores_;     // update -> what it stores
  std::set<std::string> dropped_;                // gathers
};

}  // namespace

void reorder_back_before_gather(Rewrite& rewrite) { ReorderBack(rewrite).run(); }

}  // namespace axonn::coconet
