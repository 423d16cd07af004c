#pragma once

#include <string_view>

#include "axonn/coconet/language/dataflow.hpp"

namespace axonn::coconet {

// The place of a rule among update_rules().
enum class UpdateRule : uint8_t {
  plain,
  gradient,
  shapes,
  weights,
  state,
  rows,
  operations,
  start,
  norm,
  factor,
  scalars,
};

void check(bool holds, UpdateRule rule, const Program& program, std::string_view got, int line = 0);
// Whether an optimizer may have this expression, the root of a statement or a part of it.
void check_operations(const Program& program, const Expression& expression, const Statement& statement);

}  // namespace axonn::coconet
