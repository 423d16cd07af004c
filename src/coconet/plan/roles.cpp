#include "coconet/plan/roles.hpp"

#include <algorithm>

namespace axonn::coconet {

bool reduces(const Expression& root) {
  return root.is(Operation::all_reduce) || root.is(Operation::reduce_scatter) || root.is(Operation::reduce);
}

bool moves(const Expression& root) {
  return (root.is(OperationKind::collective) && !reduces(root)) || root.is(OperationKind::send);
}

bool is_view(const Expression& root) {
  return root.is(OperationKind::part) && root.operands()[0].is(Operation::reference);
}

const Section* overlap_of(const Program& program, const std::string& statement) {
  const Section* section = program.section_of(statement);
  if (section != nullptr && section->kind == SectionKind::fuse) section = program.section_of(section->name);
  return section;
}

bool sends(const Program& program, const Section& overlap) {
  return std::ranges::any_of(program.statements_of(overlap.name), [&](const std::string& one) {
    return program.statement(one).expression.is(Operation::send);
  });
}

}  // namespace axonn::coconet
