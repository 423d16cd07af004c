#pragma once

#include <set>

#include "axonn/coconet/language/expression.hpp"
#include "coconet/text/lexer.hpp"

namespace axonn::coconet {

// Reads one expression from a lexer and stops at the first token that does not belong to it.
class ExpressionParser {
 public:
  explicit ExpressionParser(Lexer& lexer) : lexer_(lexer) {}
  Expression parse() { return infix(1); }

 private:
  Expression infix(int least_precedence);
  Expression prefix();
  Expression power();
  Expression primary();
  Expression call();
  void operands(const OperationInfo& row, std::vector<Expression>& read);
  void setting(const OperationInfo& row, Attributes& attributes, std::set<Attribute>& given);
  void named_setting(const OperationInfo& row, Attributes& attributes, std::set<Attribute>& given);
  std::vector<int> dims();
  int group_offset();
  Expression made(const Token& at, Operation operation, std::vector<Expression> operands,
                  const Attributes& attributes = {});

  Lexer& lexer_;
  int nesting_ = 0;
};

}  // namespace axonn::coconet
