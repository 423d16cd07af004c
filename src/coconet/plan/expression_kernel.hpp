#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "axonn/coconet/plan/step_kernel.hpp"

namespace axonn::coconet {

// Adds the instructions of expressions to the kernel of a step.
class ExpressionKernel {
 public:
  using Value = PointwiseKernel::Value;
  // `read`: the kernel's value of a reference.
  ExpressionKernel(const Program& program, StepKernel& made, std::function<Value(const Expression&)> read)
      : program_(program), made_(made), read_(std::move(read)) {}

  Value build(const Expression& expression);
  Value as(Value value, ElementType type);

 private:
  Value ranks();
  Value dropped(const Expression& expression);
  Value sign(const Expression& expression);
  Value applied(const Expression& expression);
  ElementType number_type(const Expression& expression, const std::vector<Value>& operands, bool selects) const;

  const Program& program_;
  StepKernel& made_;
  std::function<Value(const Expression&)> read_;
  Value ranks_;
};

}  // namespace axonn::coconet
