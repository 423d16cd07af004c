#pragma once

// The operations of stages, on a round's elements in registers. To be included after an instruction
// set's vectors.
#include "coconet/stages/stage_math.hpp"

namespace axonn::coconet {
namespace {

// A value of the elements of a round. In wide chains fp32 uses the first part only.
struct Value {
  F part[2];
};

template <bool wide>
constexpr int kElements = wide ? kFloats : 2 * kFloats;

AXONN_INLINE D fp64_part(const Value& value, int part) { return bits<D>(value.part[part]); }

template <StageOp op, typename V>
AXONN_INLINE V computed(V a, V b) {
  if constexpr (op == StageOp::add) return a + b;
  if constexpr (op == StageOp::subtract) return a - b;
  if constexpr (op == StageOp::multiply) return a * b;
  if constexpr (op == StageOp::divide) return a / b;
  if constexpr (op == StageOp::minimum) return minimum_of(a, b);
  if constexpr (op == StageOp::maximum) return maximum_of(a, b);
  if constexpr (op == StageOp::relu) return maximum_of(a, V{});
  if constexpr (op == StageOp::negate) return -a;
  if constexpr (op == StageOp::absolute) return absolute_of(a);
  if constexpr (op == StageOp::square_root) return square_root_of(a);
  if constexpr (op == StageOp::sigmoid) return sigmoid_of(a);
  if constexpr (op == StageOp::fast_exponential) return fast_exp_of(a);
}

template <StageOp op>
AXONN_INLINE D by_polynomials(D a, D b) {
  if constexpr (op == StageOp::power) return pow_of(a, b);
  if constexpr (op == StageOp::exponential) return exp_of(a, D{});
  if constexpr (op == StageOp::logarithm) return log_of(a);
  if constexpr (op == StageOp::tanh) return tanh_of(a);
  if constexpr (op == StageOp::gelu) return gelu_of(a);
  if constexpr (op == StageOp::gelu_tanh) return gelu_tanh_of(a);
}
template <StageOp op>
AXONN_INLINE F by_polynomials(F a, F b) {
  return narrow(by_polynomials<op>(widen_low(a), widen_low(b)), by_polynomials<op>(widen_high(a), widen_high(b)));
}

template <StageOp op, typename V>
AXONN_INLINE auto compared(V a, V b) {
  if constexpr (op == StageOp::less) return a < b;
  if constexpr (op == StageOp::less_equal) return a <= b;
  if constexpr (op == StageOp::equal) return a == b;
  if constexpr (op == StageOp::not_equal) return a != b;
  if constexpr (op == StageOp::is_finite) return absolute_of(a) < (V{} + static_cast<float>(kInfinity));
}

constexpr bool is_polynomial(StageOp op) {
  return op == StageOp::power || (op >= StageOp::exponential && op <= StageOp::tanh) || op == StageOp::gelu ||
         op == StageOp::gelu_tanh;
}
constexpr bool is_comparison(StageOp op) {
  return (op >= StageOp::less && op <= StageOp::not_equal) || op == StageOp::is_finite;
}

// r0 of a stage from its operands. Parts that a type does not use are computed and dropped.
template <StageKey key>
AXONN_INLINE Value result_of(const Value& a, const Value& b, const Value& c) {
  constexpr bool fp64 = key.type == ElementType::fp64;
  Value result{};
  if constexpr (key.op == StageOp::copy) {
    return a;
  } else if constexpr (key.op == StageOp::widen) {
    return {bits<F>(widen_low(a.part[0])), bits<F>(widen_high(a.part[0]))};
  } else if constexpr (key.op == StageOp::narrow) {
    result.part[0] = narrow(fp64_part(a, 0), fp64_part(a, 1));
  } else if constexpr (fp64 && is_comparison(key.op)) {
    const D one = all(1.0);
    const L low = compared<key.op>(fp64_part(a, 0), fp64_part(b, 0)),
            high = compared<key.op>(fp64_part(a, 1), fp64_part(b, 1));
    result.part[0] = narrow(bits<D>(low & bits<L>(one)), bits<D>(high & bits<L>(one)));
  } else if constexpr (fp64 && key.op == StageOp::select) {
    result.part[0] = bits<F>(widen_low(a.part[0]) != 0.0 ? fp64_part(b, 0) : fp64_part(c, 0));
    result.part[1] = bits<F>(widen_high(a.part[0]) != 0.0 ? fp64_part(b, 1) : fp64_part(c, 1));
  } else if constexpr (fp64) {
    for (int p = 0; p < 2; ++p) {
      const D x = fp64_part(a, p), y = fp64_part(b, p), z = fp64_part(c, p);
      if constexpr (key.op == StageOp::fma)
        result.part[p] = bits<F>(fma_of(x, y, z));
      else if constexpr (is_polynomial(key.op))
        result.part[p] = bits<F>(by_polynomials<key.op>(x, y));
      else
        result.part[p] = bits<F>(computed<key.op>(x, y));
    }
  } else {
    for (int p = 0; p < (key.wide ? 1 : 2); ++p) {
      const F x = a.part[p], y = b.part[p], z = c.part[p];
      if constexpr (key.op == StageOp::fma)
        result.part[p] = fma_of(x, y, z);
      else if constexpr (key.op == StageOp::select)
        result.part[p] = x != 0.0f ? y : z;
      else if constexpr (key.op == StageOp::round_bf16)
        result.part[p] = round_bf16(x);
      else if constexpr (key.op == StageOp::round_fp16)
        result.part[p] = round_fp16(x);
      else if constexpr (is_comparison(key.op))
        result.part[p] = bits<F>(bits<U>(compared<key.op>(x, y)) & bits<U>(all(1.0f)));
      else if constexpr (is_polynomial(key.op))
        result.part[p] = by_polynomials<key.op>(x, y);
      else
        result.part[p] = computed<key.op>(x, y);
    }
  }
  return result;
}

}  // namespace
}  // namespace axonn::coconet
