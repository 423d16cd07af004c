#pragma once

#include <string>
#include <string_view>

#include "coconet/language/typing.hpp"
#include "coconet/language/typing_rules.hpp"

namespace axonn::coconet {

// Derives the type of an expression: one function per kind of operation.
class Derivation {
 public:
  explicit Derivation(const TypingContext& context) : context_(context) {}
  TensorType of(const Expression& expression) const;

 private:
  using enum TypingRule;
  void check(bool holds, TypingRule rule, std::string_view got = "") const;
  std::string text_of(const Expression& expression) const;
  TensorType operand(const Expression& expression, size_t index) const;

  TensorType pointwise(const Expression& expression) const;
  // Shape, distribution and group of an element by element operation.
  TensorType joined(const TensorType& a, const TensorType& b) const;
  TensorType part(const Expression& expression) const;
  TensorType updated(const Expression& expression) const;
  TensorType reduction(const Expression& expression) const;
  TensorType product(const Expression& expression) const;
  TensorType convolution(const Expression& expression) const;
  void same_element_and_group(const TensorType& a, const TensorType& b) const;
  TensorType collective(const Expression& expression) const;
  TensorType sent(const Expression& expression) const;

  const TypingContext& context_;
};

}  // namespace axonn::coconet
