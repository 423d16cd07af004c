#include "kernels/cpu/swiglu_chains.hpp"

#include <array>
#include <cstddef>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

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

// Streams: gate, value, output.
StageChain forward_chain(ElementType type) {
  PointwiseKernel kernel;
  const Value gate = loaded(kernel, "gate", type), value = loaded(kernel, "value", type);
  const Value silu = kernel.apply(PointwiseOp::multiply, {kernel.apply(PointwiseOp::sigmoid, {gate}), gate});
  kernel.store(kernel.stream("output", type), kernel.cast(kernel.apply(PointwiseOp::multiply, {silu, value}), type));
  return StageChain(kernel);
}

// Streams: gate, value, grad output, grad gate, grad value. The derivative of silu(g) = g s, s =
// sigmoid(g), is s + g s (1 - s). The smaller one of s and 1 - s is w = sigmoid(-|g|), so that
// nothing cancels.
StageChain backward_chain(ElementType type) {
  PointwiseKernel kernel;
  const ElementType inside = inside_of(type);
  const auto of = [&](PointwiseOp op, std::initializer_list<Value> operands) { return kernel.apply(op, operands); };
  const Value gate = loaded(kernel, "gate", type), value = loaded(kernel, "value", type),
              grad = loaded(kernel, "grad output", type);
  const Value w = of(PointwiseOp::sigmoid, {of(PointwiseOp::negate, {of(PointwiseOp::absolute, {gate})})});
  const Value rest = of(PointwiseOp::subtract, {kernel.constant(1, inside), w});
  const Value s = of(PointwiseOp::select, {of(PointwiseOp::less, {gate, kernel.constant(0, inside)}), w, rest});
  const Value derivative = of(PointwiseOp::fma, {of(PointwiseOp::multiply, {w, rest}), gate, s});
  const Value grad_gate = of(PointwiseOp::multiply, {of(PointwiseOp::multiply, {grad, value}), derivative});
  const Value grad_value = of(PointwiseOp::multiply, {grad, of(PointwiseOp::multiply, {gate, s})});
  kernel.store(kernel.stream("grad gate", type), kernel.cast(grad_gate, type));
  kernel.store(kernel.stream("grad value", type), kernel.cast(grad_value, type));
  return StageChain(kernel);
}

struct Chains {
  explicit Chains(ElementType type) : forward(forward_chain(type)), backward(backward_chain(type)) {}
  StageChain forward, backward;
};

// The begin of a row's second half.
void* second_half(void* row, const Rows& rows) { return static_cast<std::byte*>(row) + rows.row_bytes() / 2; }

}  // namespace

Tensor swiglu_on_cpu(const Tensor& some_hidden) {
  const Tensor hidden = some_hidden.contiguous();
  std::vector<int64_t> sizes = hidden.sizes().vec();
  sizes.back() /= 2;
  const Tensor output = at::empty(sizes, hidden.options());
  const StageChain& chain = chains_of<Chains>(hidden.scalar_type()).forward;
  const Rows in(hidden), out(output);
  for_row_blocks(rows_in(hidden), [&](int64_t, int64_t row) {
    const std::array<void*, 3> streams = {in.row(row), second_half(in.row(row), in), out.row(row)};
    chain.run({.count = sizes.back(), .streams = streams});
  });
  return output;
}

Tensor swiglu_gradient_on_cpu(const Tensor& some_grad, const Tensor& some_hidden) {
  const Tensor grad = some_grad.contiguous(), hidden = some_hidden.contiguous(), result = at::empty_like(hidden);
  const StageChain& chain = chains_of<Chains>(hidden.scalar_type()).backward;
  const Rows in(hidden), g(grad), out(result);
  for_row_blocks(rows_in(hidden), [&](int64_t, int64_t row) {
    const std::array<void*, 5> streams = {in.row(row), second_half(in.row(row), in), g.row(row), out.row(row),
                                          second_half(out.row(row), out)};
    chain.run({.count = grad.size(-1), .streams = streams});
  });
  return result;
}

}  // namespace axonn
