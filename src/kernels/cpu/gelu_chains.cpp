#include "kernels/cpu/gelu_chains.hpp"

#include <array>
#include <numbers>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "axonn/coconet/stages/stage_chain.hpp"
#include "kernels/cpu/row_chains.hpp"

namespace axonn {
namespace {

using at::Tensor;
using coconet::ElementType;
using coconet::PointwiseKernel;
using coconet::PointwiseOp;
using coconet::StageChain;
using Value = PointwiseKernel::Value;

// v = input + bias, and z = 2 u = v (kFirst + kThird v^2).
struct Parts {
  Value v, square, z;
};
constexpr double kFirst = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kThird = kFirst * 0.044715;

Parts parts_of(PointwiseKernel& kernel, ElementType type, ElementType inside) {
  const auto input = kernel.stream("input", type), bias = kernel.stream("bias", type);
  const Value v =
      kernel.apply(PointwiseOp::add, {kernel.cast(kernel.load(input), inside), kernel.cast(kernel.load(bias), inside)});
  const Value square = kernel.apply(PointwiseOp::multiply, {v, v});
  const Value slope =
      kernel.apply(PointwiseOp::fma, {kernel.constant(kThird, inside), square, kernel.constant(kFirst, inside)});
  return {v, square, kernel.apply(PointwiseOp::multiply, {slope, v})};
}

// Streams: input, bias, output.
StageChain forward_chain(ElementType type) {
  PointwiseKernel kernel;
  const Parts parts = parts_of(kernel, type, inside_of(type));
  const Value output = kernel.apply(PointwiseOp::multiply, {kernel.apply(PointwiseOp::sigmoid, {parts.z}), parts.v});
  kernel.store(kernel.stream("output", type), kernel.cast(output, type));
  return StageChain(kernel);
}

// Streams: input, bias, grad output, grad input, bias sum. The derivative is s + v z' s (1 - s) of
// s = sigmoid(z). The smaller one of s and 1 - s is w = sigmoid(-|z|), so that nothing cancels.
StageChain backward_chain(ElementType type) {
  const ElementType inside = inside_of(type);
  PointwiseKernel kernel;
  const Parts parts = parts_of(kernel, type, inside);
  const auto of = [&](PointwiseOp op, std::initializer_list<Value> operands) { return kernel.apply(op, operands); };
  const Value w = of(PointwiseOp::sigmoid, {of(PointwiseOp::negate, {of(PointwiseOp::absolute, {parts.z})})});
  const Value rest = of(PointwiseOp::subtract, {kernel.constant(1, inside), w});
  const Value s = of(PointwiseOp::select, {of(PointwiseOp::less, {parts.v, kernel.constant(0, inside)}), w, rest});
  const Value rise =
      of(PointwiseOp::fma, {kernel.constant(3 * kThird, inside), parts.square, kernel.constant(kFirst, inside)});
  const Value steep = of(PointwiseOp::multiply, {of(PointwiseOp::multiply, {w, rest}), parts.v});
  const Value derivative = of(PointwiseOp::fma, {steep, rise, s});
  const Value grad_output = kernel.cast(kernel.load(kernel.stream("grad output", type)), inside);
  const Value grad = of(PointwiseOp::multiply, {derivative, grad_output});
  kernel.store(kernel.stream("grad input", type), kernel.cast(grad, type));
  const auto sum = kernel.stream("bias sum", inside);
  kernel.store(sum, of(PointwiseOp::add, {grad, kernel.load(sum)}));
  return StageChain(kernel);
}

struct Chains {
  explicit Chains(ElementType type) : forward(forward_chain(type)), backward(backward_chain(type)) {}
  StageChain forward, backward;
};

}  // namespace

Tensor gelu_on_cpu(const Tensor& some_input, const Tensor& bias) {
  const Tensor input = some_input.contiguous(), output = at::empty_like(input);
  const StageChain& chain = chains_of<Chains>(input.scalar_type()).forward;
  const Rows in(input), b(bias), out(output);
  for_row_blocks(rows_in(input), [&](int64_t, int64_t row) {
    const std::array<void*, 3> streams = {in.row(row), b.row(0), out.row(row)};
    chain.run({.count = bias.size(0), .streams = streams});
  });
  return output;
}

GeluGradient gelu_gradient_on_cpu(const Tensor& some_grad, const Tensor& some_input, const Tensor& bias) {
  const Tensor grad = some_grad.contiguous(), input = some_input.contiguous(), result = at::empty_like(input);
  const int64_t rows = rows_in(input);
  const Tensor sums = at::zeros({sums_over(rows), bias.size(0)}, input.options().dtype(wide_type_of(input)));
  const StageChain& chain = chains_of<Chains>(input.scalar_type()).backward;
  const Rows in(input), b(bias), g(grad), out(result), sum(sums);
  for_row_blocks(rows, [&](int64_t block, int64_t row) {
    const std::array<void*, 5> streams = {in.row(row), b.row(0), g.row(row), out.row(row), sum.row(block)};
    chain.run({.count = bias.size(0), .streams = streams});
  });
  return {result, sums};
}

}  // namespace axonn
