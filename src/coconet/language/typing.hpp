#pragma once

#include <functional>
#include <span>
#include <string>

#include "axonn/coconet/language/distribution.hpp"
#include "axonn/coconet/language/expression.hpp"
#include "axonn/coconet/language/guards.hpp"

namespace axonn::coconet {

// The rules of types (CoCoNet, section 2.2 and figure "validation rules"). Every operation has one
// function that derives the type of its result:
//
// | operation | operands | result |
// | --- | --- | --- |
// | element by element | one element type; shapes broadcast; distributions: below | the same |
// | comparison | as above | boolean |
// | slice(x, d) | replicated | sliced(d) |
// | load(x, r) | replicated | rooted(r) |
// | update(t, x) | a declared tensor, a value of its type | that value |
// | reduce_tensor over all dims or some | any | those dims are 1; local if one of them was sliced |
// | matmul, conv2d | both sliced on the dim that is summed | local |
// | all_reduce | local | replicated |
// | reduce_scatter(d) | local | sliced(d) |
// | reduce(r) | local | rooted(r) |
// | all_gather | sliced | replicated |
// | broadcast | rooted | replicated |
// | send(k) | of group g | the same distribution in group g + k |
//
// A replicated scalar goes with every distribution and adopts the element type of the tensor. A
// replicated tensor goes with a local one (the result is local), and with a sliced one only if it
// does not have the sliced dim. Sums of elements are fp64.
std::span<const Rule> typing_rules();

// The type of the program's scalars, of numbers and of `ranks`.
TensorType scalar_type();

// Derives the types of expressions.
struct TypingContext {
  std::function<TensorType(const std::string&)> type_of;  // type of a reference; UserError if unknown
  int groups = 1;
  std::string place;  // the statement: "sum = all_reduce(+, g), line 9"
  Guards guards;
  // An expression as the program's text has it; empty: it is so already.
  std::function<Expression(const Expression&)> written = {};

  TensorType derive(const Expression& expression) const;
};

}  // namespace axonn::coconet
