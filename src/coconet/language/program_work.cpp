#include "axonn/coconet/language/program_work.hpp"

#include <algorithm>

namespace axonn::coconet {
namespace {

double operations_in(const Expression& expression) {
  double count = expression.is(OperationKind::leaf) ? 0 : 1;
  for (const Expression& operand : expression.operands()) count += operations_in(operand);
  return count;
}

// Of an element by element expression.
Extents extents_of(const Program& program, const Expression& expression, const SizeValues& sizes) {
  if (expression.is(Operation::reference)) return coconet::extents_of(program.type(expression.name()).shape, sizes);
  Extents all;
  for (const Expression& operand : expression.operands()) {
    const Extents one = extents_of(program, operand, sizes);
    if (one.size() > all.size()) all.insert(all.begin(), one.size() - all.size(), 1);
    for (size_t behind = 1; behind <= one.size(); ++behind)
      all[all.size() - behind] = std::max(all[all.size() - behind], one[one.size() - behind]);
  }
  return all;
}

}  // namespace

ProgramWork work_of(const Program& program, const SizeValues& sizes) {
  ProgramWork work;
  const auto elements_of = [&](const TensorType& type) {
    return static_cast<double>(count_of(coconet::extents_of(type.shape, sizes)));
  };
  for (const Declaration& declaration : program.declarations()) work.elements += elements_of(declaration.type);
  for (const Statement& statement : program.statements()) {
    const Expression& root = statement.expression;
    double loop = elements_of(program.type(statement.name));
    work.elements += loop;
    if (root.is(OperationKind::reduction))
      loop = static_cast<double>(count_of(extents_of(program, root.operands()[0], sizes)));
    if (root.is(OperationKind::layer)) {  // every output adds a product per element of its column or kernel
      const Shape& weight = program.type(root.operands()[1].name()).shape;
      const Size outputs = root.is(Operation::matmul) ? weight.back() : weight.front();
      loop *= elements_of(program.type(root.operands()[1].name())) / static_cast<double>(outputs.value(sizes));
    }
    work.operations += loop * std::max(1.0, operations_in(root));
  }
  return work;
}

}  // namespace axonn::coconet
