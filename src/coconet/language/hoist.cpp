#include "coconet/language/hoist.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace axonn::coconet {
namespace {

class Hoist {
 public:
  explicit Hoist(ProgramParts& parts) : parts_(parts) {
    taken_.insert(parts.sizes.begin(), parts.sizes.end());
    for (const Declaration& declaration : parts.declarations) taken_.insert(declaration.name);
    for (const Statement& statement : parts.statements) taken_.insert(statement.name);
    for (const Section& section : parts.sections) taken_.insert(section.name);
  }

  void run() {
    const std::vector<Statement> before = std::move(parts_.statements);
    parts_.statements.clear();
    for (const Statement& statement : before) {
      current_ = &statement;
      last_ = 0;
      const Expression expression = root(statement.expression);
      parts_.statements.push_back({statement.name, expression, statement.line, statement.part_of});
    }
  }

 private:
  static bool stands_alone(const Expression& expression) {
    switch (info(expression.operation()).kind) {
      case OperationKind::leaf:
      case OperationKind::pointwise:
      case OperationKind::part:
        return false;
      default:
        return true;
    }
  }

  Expression root(const Expression& expression) {
    const OperationKind kind = info(expression.operation()).kind;
    const bool takes_references =
        kind == OperationKind::layer || kind == OperationKind::collective || kind == OperationKind::send;
    std::vector<Expression> operands;
    for (const Expression& operand : expression.operands())
      operands.push_back(takes_references && !operand.is(Operation::reference) ? hoisted(operand) : inner(operand));
    return operands.empty() ? expression
                            : Expression::of(expression.operation(), std::move(operands), expression.attributes());
  }

  Expression inner(const Expression& expression) {
    return stands_alone(expression) ? hoisted(expression) : root(expression);
  }

  Expression hoisted(const Expression& expression) {
    const Expression value = root(expression);
    std::string name;
    do name = current_->name + "." + std::to_string(++last_);
    while (!taken_.insert(name).second);
    parts_.statements.push_back({name, value, current_->line, current_->name});
    for (Section& section : parts_.sections) {
      const auto member = std::ranges::find(section.members, current_->name);
      if (member != section.members.end()) section.members.insert(member, name);
    }
    return Expression::reference(name);
  }

  ProgramParts& parts_;
  std::set<std::string> taken_;
  const Statement* current_ = nullptr;
  int last_ = 0;
};

}  // namespace

void hoist(ProgramParts& parts) { Hoist(parts).run(); }

}  // namespace axonn::coconet
