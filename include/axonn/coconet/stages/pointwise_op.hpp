#pragma once

#include <cstdint>

#include "axonn/core/names.hpp"

namespace axonn::coconet {

// The operations, in fp64 or fp32 arithmetic. Operands of bf16 and fp16 are computed in fp32, and
// every result is rounded to its type at once, to the nearest, ties to even. So a value is the
// same in a register and in memory.
// - add, subtract, multiply, divide, square_root and fma are IEEE's. Nothing is contracted: there
//   is an fma only where one is written.
// - minimum and maximum give NaN if an operand is NaN; -0 is less than 0. relu(x) = maximum(x, 0).
// - Comparisons give a boolean, and false with NaN; not_equal gives true.
// - power with a constant exponent of 0, 1, 2, 3, -1 or 0.5 is 1, x, x*x, x*x*x, 1/x or
//   square_root(x). Others follow C's pow.
// - gelu is x/2 * (1 + erf(x / sqrt(2))), PyTorch's `none`; gelu_tanh is PyTorch's `tanh`.
// - power, exponential, logarithm, tanh and both gelus are polynomials in fp64 with fixed fma's,
//   for fp32 too, where they are rounded once. So all instruction sets give the same bits.
//   docs/coconet.md has their errors.
// - sigmoid(x) = 1 / (1 + exp(-x)) is a polynomial too, but in fp32 for fp32: it is there for the
//   activations of a network, where the others would take twice as long. No more than 2 units in
//   the last place off, from x = -87 on. So is fast_exponential, for a softmax: exp(x) from x = -87
//   to 88 in fp32, 1 unit in the last place off; 0 below, and exp(88) above.
// - fma(a, b, c) = a * b + c, rounded once (and then to bf16 or fp16). select(c, a, b) = c ? a : b.
// The sign and the payload of a NaN are not fixed.
enum class PointwiseOp : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  minimum,
  maximum,
  power,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  not_equal,
  negate,
  absolute,
  square_root,
  exponential,
  logarithm,
  tanh,
  relu,
  gelu,
  gelu_tanh,
  sigmoid,
  fast_exponential,
  is_finite,
  fma,
  select
};

}  // namespace axonn::coconet

namespace axonn {

template <>
struct Names<coconet::PointwiseOp> {
  using Op = coconet::PointwiseOp;
  static constexpr Named<Op> all[] = {{"add", Op::add},
                                      {"subtract", Op::subtract},
                                      {"multiply", Op::multiply},
                                      {"divide", Op::divide},
                                      {"minimum", Op::minimum},
                                      {"maximum", Op::maximum},
                                      {"power", Op::power},
                                      {"less", Op::less},
                                      {"less_equal", Op::less_equal},
                                      {"greater", Op::greater},
                                      {"greater_equal", Op::greater_equal},
                                      {"equal", Op::equal},
                                      {"not_equal", Op::not_equal},
                                      {"negate", Op::negate},
                                      {"absolute", Op::absolute},
                                      {"square_root", Op::square_root},
                                      {"exponential", Op::exponential},
                                      {"logarithm", Op::logarithm},
                                      {"tanh", Op::tanh},
                                      {"relu", Op::relu},
                                      {"gelu", Op::gelu},
                                      {"gelu_tanh", Op::gelu_tanh},
                                      {"sigmoid", Op::sigmoid},
                                      {"fast_exponential", Op::fast_exponential},
                                      {"is_finite", Op::is_finite},
                                      {"fma", Op::fma},
                                      {"select", Op::select}};
};

}  // namespace axonn
