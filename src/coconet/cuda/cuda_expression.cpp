#include "coconet/cuda/cuda_expression.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

template <typename Number>
std::string shortest(Number number) {
  std::array<char, 40> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), number);
  std::string text(digits.data(), end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text.front() == '-' ? "(" + text : text;
}

// A function of the prelude that computes an operation in fp64 only: fp32 goes there and back.
std::string polynomial(StageOp op) {
  switch (op) {
    case StageOp::power:
      return "pow_of";
    case StageOp::exponential:
      return "exp_of";
    case StageOp::logarithm:
      return "log_of";
    case StageOp::tanh:
      return "tanh_of";
    case StageOp::gelu:
      return "gelu_of";
    case StageOp::gelu_tanh:
      return "gelu_tanh_of";
    default:
      return "";
  }
}

std::string infix(StageOp op) {
  switch (op) {
    case StageOp::add:
      return " + ";
    case StageOp::subtract:
      return " - ";
    case StageOp::multiply:
      return " * ";
    case StageOp::divide:
      return " / ";
    case StageOp::less:
      return " < ";
    case StageOp::less_equal:
      return " <= ";
    case StageOp::equal:
      return " == ";
    case StageOp::not_equal:
      return " != ";
    default:
      return "";
  }
}

}  // namespace

std::string cuda_literal(double number, ElementType type) {
  const bool wide = type == ElementType::fp64;
  const double rounded = wide ? number : static_cast<float>(number);
  if (std::isnan(rounded)) return wide ? "kNan" : "static_cast<float>(kNan)";
  if (std::isinf(rounded)) {
    const std::string infinity = rounded > 0 ? "kInfinity" : "-kInfinity";
    return wide ? "(" + infinity + ")" : "static_cast<float>(" + infinity + ")";
  }
  const std::string text = wide ? shortest(rounded) : shortest(static_cast<float>(rounded)) + "f";
  return text.front() == '(' ? text + ")" : text;
}

std::string cuda_expression(StageOp op, ElementType type, const std::string& a, const std::string& b,
                            const std::string& c) {
  const bool wide = type == ElementType::fp64;
  if (const std::string name = polynomial(op); !name.empty()) {
    const auto operand = [&](const std::string& x) { return wide ? x : "static_cast<double>(" + x + ")"; };
    std::string call = name + "(" + operand(a);
    if (op == StageOp::power) call += ", " + operand(b);
    if (op == StageOp::exponential) call += ", 0.0";
    return wide ? call + ")" : "static_cast<float>(" + call + "))";
  }
  if (const std::string sign = infix(op); !sign.empty())
    return a + sign + b + (op >= StageOp::less && op <= StageOp::not_equal ? " ? 1.0f : 0.0f" : "");
  switch (op) {
    case StageOp::minimum:
      return "minimum_of(" + a + ", " + b + ")";
    case StageOp::maximum:
      return "maximum_of(" + a + ", " + b + ")";
    case StageOp::relu:
      return "maximum_of(" + a + ", " + cuda_literal(0, type) + ")";
    case StageOp::negate:
      return "-" + a;
    case StageOp::absolute:
      return "absolute_of(" + a + ")";
    case StageOp::square_root:
      return "square_root_of(" + a + ")";
    case StageOp::sigmoid:
      return "sigmoid_of(" + a + ")";
    case StageOp::fast_exponential:
      return "fast_exp_of(" + a + ")";
    case StageOp::is_finite:
      return "absolute_of(" + a + ") < " + cuda_literal(INFINITY, type) + " ? 1.0f : 0.0f";
    case StageOp::fma:
      return "fma_of(" + a + ", " + b + ", " + c + ")";
    case StageOp::select:
      return a + " != 0.0f ? " + b + " : " + c;
    case StageOp::widen:
      return "static_cast<double>(" + a + ")";
    case StageOp::narrow:
      return "static_cast<float>(" + a + ")";
    case StageOp::round_bf16:
      return "round_bf16(" + a + ")";
    case StageOp::round_fp16:
      return "round_fp16(" + a + ")";
    case StageOp::copy:
      return a;
    default:
      throw InternalError("coconet.cuda", "no CUDA text for stage operation " + std::to_string(static_cast<int>(op)));
  }
}

}  // namespace axonn::coconet
