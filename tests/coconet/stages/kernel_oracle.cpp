#include "coconet/stages/kernel_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "axonn/core/philox.hpp"

namespace axonn::coconet::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// To `digits` binary digits, with a last place of at least 2^lowest.
double round_to(double x, int digits, int lowest, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int place = std::max(exponent - digits, lowest);
  const double result = std::ldexp(std::nearbyint(std::ldexp(x, -place)), place);
  return std::abs(result) > largest ? std::copysign(kInfinity, x) : result;
}

double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == 0 && b == 0) return std::signbit(a) && std::signbit(b) ? -0.0 : 0.0;
  return a > b ? a : b;
}
double minimum(double a, double b) { return -maximum(-a, -b); }

template <typename T>
double arithmetic(PointwiseOp op, T a, T b, T c) {
  switch (op) {
    case PointwiseOp::add:
      return a + b;
    case PointwiseOp::subtract:
      return a - b;
    case PointwiseOp::multiply:
      return a * b;
    case PointwiseOp::divide:
      return a / b;
    case PointwiseOp::minimum:
      return minimum(a, b);
    case PointwiseOp::maximum:
      return maximum(a, b);
    case PointwiseOp::less:
      return a < b;
    case PointwiseOp::less_equal:
      return a <= b;
    case PointwiseOp::greater:
      return a > b;
    case PointwiseOp::greater_equal:
      return a >= b;
    case PointwiseOp::equal:
      return a == b;
    case PointwiseOp::not_equal:
      return a != b;
    case PointwiseOp::negate:
      return -a;
    case PointwiseOp::absolute:
      return std::abs(a);
    case PointwiseOp::square_root:
      return std::sqrt(a);
    case PointwiseOp::relu:
      return maximum(a, 0);
    case PointwiseOp::is_finite:
      return std::isfinite(a);
    case PointwiseOp::fma:
      return std::fma(a, b, c);
    default:
      ADD_FAILURE() << "the oracle does not know " << to_string(op);
      return 0;
  }
}

double mask_of(const MaskInput& input, int64_t i) {
  const auto element = static_cast<uint64_t>(input.first + i);
  const auto words = philox(input.seed, element / 4, 0, input.stream);
  return to_uniform(words[element % 4]) < input.probability ? 0 : static_cast<float>(1 / (1 - input.probability));
}

double value_of(const PointwiseKernel& kernel, const OracleInputs& inputs, const PointwiseInstruction& each, int64_t i,
                const std::vector<double>& values) {
  using Kind = PointwiseInstruction::Kind;
  const auto operand = [&](size_t k) {
    return each.operands[k] < 0 ? 0 : values[static_cast<size_t>(each.operands[k])];
  };
  const auto index = static_cast<size_t>(each.index);
  switch (each.kind) {
    case Kind::load:
      return decode(inputs.streams[index].data() + i * bytes_of(each.type), each.type);
    case Kind::scalar:
      return rounded(inputs.scalars[index], each.type);
    case Kind::range_value:
      return rounded(inputs.range_values[index], each.type);
    case Kind::constant:
      return rounded(each.number, each.type);
    case Kind::dropout_mask:
      return mask_of(inputs.masks[index], i);
    case Kind::cast:
      return each.type == ElementType::boolean ? operand(0) != 0 : rounded(operand(0), each.type);
    case Kind::operation:
      break;
  }
  if (each.op == PointwiseOp::select) return operand(0) != 0 ? operand(1) : operand(2);
  const ElementType type = kernel.instructions()[static_cast<size_t>(each.operands[0])].type;
  if (type == ElementType::fp64) return arithmetic<double>(each.op, operand(0), operand(1), operand(2));
  const double result = arithmetic<float>(each.op, static_cast<float>(operand(0)), static_cast<float>(operand(1)),
                                          static_cast<float>(operand(2)));
  return rounded(result, each.type);
}

double join(ReduceOp kind, double a, double b) {
  return kind == ReduceOp::sum ? a + b : kind == ReduceOp::max ? maximum(a, b) : minimum(a, b);
}

// 32 sums per block, of every 32nd element, then half of them to the other half.
double reduced(ReduceOp kind, const std::vector<double>& values) {
  std::vector<double> lanes(32, kind == ReduceOp::sum ? 0 : kind == ReduceOp::max ? -kInfinity : kInfinity);
  for (size_t i = 0; i < values.size(); ++i) lanes[i % 32] = join(kind, lanes[i % 32], values[i]);
  for (size_t half = 16; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) lanes[i] = join(kind, lanes[i], lanes[i + half]);
  return lanes[0];
}

}  // namespace

double rounded(double number, ElementType type) {
  if (type == ElementType::fp64 || type == ElementType::boolean) return number;
  const double wide = static_cast<float>(number);
  if (type == ElementType::bf16) return round_to(wide, 8, -133, 0x1.fep127);
  if (type == ElementType::fp16) return round_to(wide, 11, -24, 65504);
  return wide;
}

double decode(const std::byte* from, ElementType type) {
  if (type == ElementType::fp64 || type == ElementType::fp32) {
    double wide = 0;
    float narrow = 0;
    std::memcpy(type == ElementType::fp64 ? static_cast<void*>(&wide) : &narrow, from, bytes_of(type));
    return type == ElementType::fp64 ? wide : narrow;
  }
  uint16_t word = 0;
  std::memcpy(&word, from, 2);
  const int digits = type == ElementType::bf16 ? 7 : 10, most = type == ElementType::bf16 ? 255 : 31;
  const int fraction = word & ((1 << digits) - 1), exponent = (word & 0x7fff) >> digits;
  const int place = (type == ElementType::bf16 ? -133 : -24) + std::max(exponent - 1, 0);
  const double size = exponent == most ? (fraction == 0 ? kInfinity : std::numeric_limits<double>::quiet_NaN())
                                       : std::ldexp(exponent == 0 ? fraction : fraction + (1 << digits), place);
  return (word & 0x8000) != 0 ? -size : size;
}

void encode(std::byte* to, double number, ElementType type) {
  if (type == ElementType::fp64) return static_cast<void>(std::memcpy(to, &number, 8));
  const auto narrow = static_cast<float>(number);
  if (type == ElementType::fp32) return static_cast<void>(std::memcpy(to, &narrow, 4));
  const double size = std::abs(rounded(number, type));
  const int digits = type == ElementType::bf16 ? 7 : 10, most = type == ElementType::bf16 ? 255 : 31;
  const int lowest = type == ElementType::bf16 ? -133 : -24;
  int word = 0;
  if (std::isnan(size)) {
    word = most << digits | 1 << (digits - 1);
  } else if (std::isinf(size)) {
    word = most << digits;
  } else if (size > 0) {
    int exponent = 0;
    std::frexp(size, &exponent);
    const int biased = std::max(exponent - digits - lowest, 0);
    const int last = biased == 0 ? lowest : lowest + biased - 1;
    word = static_cast<int>(std::ldexp(size, -last)) + (biased == 0 ? 0 : (biased - 1) << digits);
  }
  const auto stored = static_cast<uint16_t>(word | (std::signbit(number) ? 0x8000 : 0));
  std::memcpy(to, &stored, 2);
}

OracleResult run_oracle(const PointwiseKernel& kernel, const OracleInputs& inputs) {
  OracleResult result{inputs.streams, std::vector<std::vector<double>>(kernel.reductions().size())};
  std::vector<std::vector<double>> reduced_values(kernel.reductions().size());
  const auto close_block = [&] {
    for (size_t r = 0; r < reduced_values.size(); ++r) {
      result.partials[r].push_back(reduced(kernel.reductions()[r].kind, reduced_values[r]));
      reduced_values[r].clear();
    }
  };
  for (int64_t i = 0; i < inputs.count; ++i) {
    std::vector<double> values;
    for (const PointwiseInstruction& each : kernel.instructions())
      values.push_back(value_of(kernel, inputs, each, i, values));
    for (const auto& [stream, value] : kernel.stores()) {
      const ElementType type = kernel.streams()[static_cast<size_t>(stream.index)].type;
      encode(result.streams[static_cast<size_t>(stream.index)].data() + i * bytes_of(type),
             values[static_cast<size_t>(value.index)], type);
    }
    for (size_t r = 0; r < reduced_values.size(); ++r)
      reduced_values[r].push_back(values[static_cast<size_t>(kernel.reductions()[r].value.index)]);
    if ((i + 1) % StageChain::kReductionBlock == 0 || i + 1 == inputs.count) close_block();
  }
  return result;
}

}  // namespace axonn::coconet::test
