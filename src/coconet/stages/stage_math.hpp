#pragma once

// Exponential, logarithm and their like on vectors of fp64, with fixed polynomials and fixed fma's:
// the same bits for every vector D. The coefficients are truncated Chebyshev series, computed with
// 60 digits. It is also a part of CUDA text (coconet/cuda), where a vector is one number. To be
// included after the vectors of an instruction set.
namespace axonn::coconet {
namespace {

constexpr double kRoundingShift = 0x1.8p52;  // added and subtracted again, it rounds to an integer
constexpr double kInfinity = __builtin_bit_cast(double, uint64_t{0x7ff0000000000000});
constexpr double kNan = __builtin_bit_cast(double, uint64_t{0x7ff8000000000000});
constexpr double kLog2High = 0x1.62e42fee00000p-1, kLog2Low = 0x1.a39ef35793c76p-33;

// c[0] + x * (c[1] + x * ...)
template <int count>
AXONN_INLINE D polynomial(D x, const double (&c)[count]) {
  D sum = all(c[count - 1]);
  for (int i = count - 2; i >= 0; --i) sum = fma_of(sum, x, all(c[i]));
  return sum;
}

AXONN_INLINE D power_of_two(UL exponent) { return bits<D>((exponent + 1023) << 52); }

// exp(x + low), where low is tiny.
AXONN_INLINE D exp_of(D x, D low) {
  constexpr double c[] = {0.49999999999999999998,     0.16666666666666671104,   0.041666666666666677038,
                          0.0083333333333259849939,   0.0013888888888878869476, 0.00019841269875343859965,
                          0.000024801587336985402451, 2.7557254738508667994e-6, 2.7557262699444684257e-7,
                          2.5105491605094749844e-8,   2.0918351577487165891e-9};
  x = x > 710.0 ? all(710.0) : x;
  x = x < -750.0 ? all(-750.0) : x;
  const D shifted = fma_of(x, all(0x1.71547652b82fep+0), all(kRoundingShift)), k = shifted - kRoundingShift;
  const D r = fma_of(k, all(-kLog2Low), fma_of(k, all(-kLog2High), x)) + low;
  const D p = fma_of(r * r, polynomial(r, c), r) + 1.0;
  const UL n = bits<UL>(shifted) - bits<UL>(all(kRoundingShift));
  const UL half = bits<UL>(fma_of(k, all(0.5), all(kRoundingShift))) - bits<UL>(all(kRoundingShift));
  return p * power_of_two(half) * power_of_two(n - half);
}

struct Pair {
  D high, low;
};

// exp(x) in fp32, for x from -87 to 88; beyond, its value there.
AXONN_INLINE F exp_of(F x) {
  constexpr float shift = 0x1.8p23f,
                  c[] = {0.5000000013f, 0.16666577f, 0.04166646498f, 0.008363175565f, 0.001393364352f};
  x = x > 88.0f ? all(88.0f) : x;
  x = x < -87.0f ? all(-87.0f) : x;
  const F shifted = fma_of(x, all(0x1.715476p+0f), all(shift)), k = shifted - shift;
  const F r = fma_of(k, all(-1.42860682e-06f), fma_of(k, all(-0x1.62e4p-1f), x));
  F p = all(c[4]);
  for (int i = 3; i >= 0; --i) p = fma_of(p, r, all(c[i]));
  p = fma_of(r * r, p, r) + 1.0f;
  return p * bits<F>((bits<U>(shifted) - bits<U>(all(shift)) + 127) << 23);
}

AXONN_INLINE D fast_exp_of(D x) { return exp_of(x, D{}); }
AXONN_INLINE F fast_exp_of(F x) { return x < -87.0f ? all(0.0f) : exp_of(x); }

AXONN_INLINE D sigmoid_of(D x) { return 1.0 / (exp_of(-x, D{}) + 1.0); }
AXONN_INLINE F sigmoid_of(F x) { return 1.0f / (exp_of(-x) + 1.0f); }

// The logarithm of a positive finite number as a sum of two.
AXONN_INLINE Pair positive_log_of(D x) {
  constexpr double c[] = {2. / 3,  2. / 5,  2. / 7,  2. / 9,  2. / 11, 2. / 13,
                          2. / 15, 2. / 17, 2. / 19, 2. / 21, 2. / 23};
  const L tiny = x < 0x1p-1022;
  x = tiny ? x * 0x1p54 : x;
  // x = m * 2^k with m in [sqrt(1/2), sqrt(2))
  const UL exponent = (bits<UL>(x) - uint64_t{0x3fe6a09e667f3bcd} + (uint64_t{1024} << 52)) >> 52;
  const D m = bits<D>(bits<UL>(x) - ((exponent - 1024) << 52));
  const D k = bits<D>(exponent | uint64_t{0x4330000000000000}) - (tiny ? all(0x1p52 + 1078) : all(0x1p52 + 1024));
  // log(m) = 2 atanh(s), s = f / (2 + f), with the rounding error of s
  const D f = m - 1.0, d = f + 2.0, s = f / d;
  const D s_low = fma_of(-s, f - (d - 2.0), fma_of(-s, d, f)) / d;
  const D z = s * s, a = k * kLog2High, b = s + s, sum = a + b;
  const D low = (b - (sum - a)) + fma_of(k, all(kLog2Low), fma_of(s * z, polynomial(z, c), s_low + s_low));
  const D high = sum + low;
  return {high, low - (high - sum)};
}

AXONN_INLINE D log_of(D x) {
  const D usual = positive_log_of(x).high;
  const D special = x == 0.0 ? all(-kInfinity) : x < 0.0 ? all(kNan) : x;
  return ((x > 0.0) & (x < kInfinity)) ? usual : special;
}

// C's pow.
AXONN_INLINE D pow_of(D x, D y) {
  const D size = absolute_of(x), y_size = absolute_of(y);
  const Pair usual = positive_log_of(size);
  const L ordinary = (size > 0.0) & (size < kInfinity);
  const D high = ordinary ? usual.high : size == 0.0 ? all(-kInfinity) : size;
  const D p = y * high;
  const L plain = ordinary & (absolute_of(p) < 800.0);
  const D low = plain ? fma_of(y, high, -p) + y * usual.low : all(0.0);
  const D result = exp_of(p, low);

  const D shifted = y_size + 0x1p52;
  const L whole = y_size < 0x1p52 ? shifted - 0x1p52 == y_size : y_size >= 0x1p52;
  const UL last = y_size < 0x1p52 ? bits<UL>(shifted) : y_size < 0x1p53 ? bits<UL>(y) : UL{};
  const L odd = whole & ((last & 1) != 0);
  const L negative = (bits<UL>(x) >> 63) != 0;
  D signed_result = (negative & odd) ? -result : result;
  signed_result = ((x < 0.0) & (size < kInfinity) & ~whole) ? all(kNan) : signed_result;
  const L one = (y == 0.0) | (x == 1.0) | ((x == -1.0) & (y_size == kInfinity));
  return one ? all(1.0) : signed_result;
}

AXONN_INLINE D tanh_of(D x) {
  constexpr double c[] = {-0.33333333333333332837,    0.13333333333332973478,      -0.05396825396782167688,
                          0.021869488515784647663,    -0.0088632350329175020687,   0.0035921208609898712378,
                          -0.0014557684200094906571,  0.0005896255300910597187,    -0.00023747768633802316426,
                          0.000092346309143106300009, -0.000030948890296527998848, 6.363309520263451977e-6};
  const D size = absolute_of(x), z = x * x;
  const D near = fma_of(x * z, polynomial(z, c), x);
  const D far = 1.0 - 2.0 / (exp_of(size + size, all(0.0)) + 1.0);
  return size < 0.625 ? near : with_sign_of(far, x);
}

// erfc(x) for x >= 0.
AXONN_INLINE D erfc_of(D x) {
  constexpr double near[] = {1.1283791670955125738,     -0.37612638903183748117,     0.11283791670954881569,
                             -0.026866170645077334198,  0.0052239776248232225684,    -0.00085483269811296659963,
                             0.00012055331122299265255, -0.000014925595519506043454, 1.6461004480962034678e-6,
                             -1.6350354461959655636e-7, 1.4660051998394847679e-8,    -1.1373902296430911635e-9,
                             5.9589307431349412188e-11};
  // exp(x * x) * erfc(x) as a polynomial of (x - 4) / (x + 4)
  constexpr double far[] = {0.1369994576250613902,       -0.25906804876017162978,     0.21871967891826473727,
                            -0.16425781669731054371,     0.1089631773989180914,       -0.063107815639673185553,
                            0.031299056518255884211,     -0.012843946032636108527,    0.0040602636313238961306,
                            -0.00079912679986342756364,  -0.000021761795538983574039, 0.000078983097614755830091,
                            -0.000022555577534088206189, -1.9029341045912965116e-6,   2.942787470080011944e-6,
                            -4.0907736080420832088e-7,   -2.7997775104014106708e-7,   9.5662497919121885094e-8,
                            1.9931622572195252729e-8,    -1.3139563417459739338e-8,   8.5360925231175857166e-10};
  const D z = x * x, at = x > 28.0 ? all(28.0) : x, square = at * at;
  const D tail = exp_of(-square, -fma_of(at, at, -square)) * polynomial((at - 4.0) / (at + 4.0), far);
  return x < 1.0 ? fma_of(-x, polynomial(z, near), all(1.0)) : tail;
}

AXONN_INLINE D gelu_of(D x) {
  const D tail = erfc_of(absolute_of(x) * 0x1.6a09e667f3bcdp-1);
  return x * 0.5 * (x < 0.0 ? tail : 2.0 - tail);
}

// x / 2 * (1 + tanh(u)) = x / (1 + exp(-2 u)), without cancellation
AXONN_INLINE D gelu_tanh_of(D x) {
  const D u = x * fma_of(x * x, all(0.044715), all(1.0)) * 0x1.9884533d43651p-1;
  return x / (exp_of(-(u + u), all(0.0)) + 1.0);
}

}  // namespace
}  // namespace axonn::coconet
