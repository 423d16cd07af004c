#include "kernels/cpu/rms_norm_chains.hpp"

#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <ATen/ops/empty.h>
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

// Streams: input.
StageChain square_chain(ElementType type) {
  PointwiseKernel kernel;
  const Value x = loaded(kernel, "input", type);
  kernel.reduce(ReduceOp::sum, kernel.apply(PointwiseOp::multiply, {x, x}));
  return StageChain(kernel);
}

// Streams: input, weight, output. Scalars: root.
StageChain forward_chain(ElementType type) {
  PointwiseKernel kernel;
  const Value x = loaded(kernel, "input", type), weight = loaded(kernel, "weight", type);
  const Value normalised = kernel.apply(PointwiseOp::multiply, {x, kernel.scalar("root", inside_of(type))});
  kernel.store(kernel.stream("output", type),
               kernel.cast(kernel.apply(PointwiseOp::multiply, {normalised, weight}), type));
  return StageChain(kernel);
}

// The streams and the scalar that both passes of backward begin with.
struct Backward {
  Value root, normalised, grad, weighted;
};
Backward begin_backward(PointwiseKernel& kernel, ElementType type) {
  const Value x = loaded(kernel, "input", type), weight = loaded(kernel, "weight", type),
              grad = loaded(kernel, "grad output", type);
  const Value root = kernel.scalar("root", inside_of(type));
  return {.root = root,
          .normalised = kernel.apply(PointwiseOp::multiply, {x, root}),
          .grad = grad,
          .weighted = kernel.apply(PointwiseOp::multiply, {grad, weight})};
}

// Streams: input, weight, grad output, weight sum. Scalars: root.
StageChain sums_chain(ElementType type) {
  PointwiseKernel kernel;
  const Backward parts = begin_backward(kernel, type);
  kernel.reduce(ReduceOp::sum, kernel.apply(PointwiseOp::multiply, {parts.weighted, parts.normalised}));
  const auto sum = kernel.stream("weight sum", inside_of(type));
  kernel.store(sum, kernel.apply(PointwiseOp::fma, {parts.grad, parts.normalised, kernel.load(sum)}));
  return StageChain(kernel);
}

// Streams: input, weight, grad output, grad input. Scalars: root, mean.
StageChain gradient_chain(ElementType type) {
  PointwiseKernel kernel;
  const Backward parts = begin_backward(kernel, type);
  const Value mean = kernel.scalar("mean", inside_of(type));
  const Value along = kernel.apply(PointwiseOp::multiply, {parts.normalised, mean});
  const Value across = kernel.apply(PointwiseOp::subtract, {parts.weighted, along});
  kernel.store(kernel.stream("grad input", type),
               kernel.cast(kernel.apply(PointwiseOp::multiply, {across, parts.root}), type));
  return StageChain(kernel);
}

struct Chains {
  explicit Chains(ElementType type)
      : squares(square_chain(type)),
        forward(forward_chain(type)),
        sums(sums_chain(type)),
        gradient(gradient_chain(type)) {}
  StageChain squares, forward, sums, gradient;
};

Tensor number_per_row(const Tensor& input) {
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() = 1;
  return at::empty(sizes, input.options().dtype(wide_type_of(input)));
}

// Numbers per row, read as doubles and written rounded.
class PerRow {
 public:
  explicit PerRow(const Tensor& numbers)
      : wide_(numbers.scalar_type() == at::kDouble ? numbers.mutable_data_ptr<double>() : nullptr),
        narrow_(wide_ == nullptr ? numbers.mutable_data_ptr<float>() : nullptr) {}
  double operator[](int64_t row) const { return wide_ != nullptr ? wide_[row] : static_cast<double>(narrow_[row]); }
  void set(int64_t row, double value) const {
    if (wide_ != nullptr)
      wide_[row] = value;
    else
      narrow_[row] = static_cast<float>(value);
  }

 private:
  double* wide_;
  float* narrow_;
};

// 1 / sqrt(sum / count + epsilon), each step rounded to Number.
template <typename Number>
double root_of(double sum, int64_t count, double epsilon) {
  const Number mean = static_cast<Number>(sum) / static_cast<Number>(count);
  return static_cast<double>(1 / std::sqrt(mean + static_cast<Number>(epsilon)));
}

}  // namespace

Tensor square_sums_on_cpu(const Tensor& some_input) {
  const Tensor input = some_input.contiguous(), result = number_per_row(input);
  const StageChain& chain = chains_of<Chains>(input.scalar_type()).squares;
  const Rows in(input);
  const PerRow out(result);
  for_row_blocks(rows_in(input), [&](int64_t, int64_t row) {
    void* const streams[] = {in.row(row)};
    out.set(row, run_sum(chain, {.count = input.size(-1), .streams = streams}));
  });
  return result;
}

RmsNormed rms_norm_on_cpu(const Tensor& some_input, const Tensor& weight, double epsilon) {
  const Tensor input = some_input.contiguous();
  const RmsNormed result{.output = at::empty_like(input), .roots = number_per_row(input)};
  const int64_t count = input.size(-1);
  const auto& root_from = input.scalar_type() == at::kDouble ? root_of<double> : root_of<float>;
  const Chains& chains = chains_of<Chains>(input.scalar_type());
  const Rows in(input), w(weight), out(result.output);
  const PerRow roots(result.roots);
  for_row_blocks(rows_in(input), [&](int64_t, int64_t row) {
    const std::array<void*, 3> streams = {in.row(row), w.row(0), out.row(row)};
    const double sum = run_sum(chains.squares, {.count = count, .streams = std::span(streams).first(1)});
    const double scalars[] = {root_from(sum, count, epsilon)};
    roots.set(row, scalars[0]);
    chains.forward.run({.count = count, .streams = streams, .scalars = scalars});
  });
  return result;
}

Tensor rms_normalised_on_cpu(const Tensor& some_input, const Tensor& roots, const Tensor& weight) {
  const Tensor input = some_input.contiguous(), result = at::empty_like(input);
  const StageChain& chain = chains_of<Chains>(input.scalar_type()).forward;
  const Rows in(input), w(weight), out(result);
  const PerRow root(roots);
  for_row_blocks(rows_in(input), [&](int64_t, int64_t row) {
    const std::array<void*, 3> streams = {in.row(row), w.row(0), out.row(row)};
    const double scalars[] = {root[row]};
    chain.run({.count = input.size(-1), .streams = streams, .scalars = scalars});
  });
  return result;
}

RmsGradientSums rms_gradient_sums_on_cpu(const Tensor& some_grad, const Tensor& some_input, const Tensor& roots,
                                         const Tensor& weight) {
  const Tensor grad = some_grad.contiguous(), input = some_input.contiguous();
  const int64_t rows = rows_in(input);
  RmsGradientSums result{
      .rows = number_per_row(input),
      .weights = at::zeros({sums_over(rows), input.size(-1)}, input.options().dtype(wide_type_of(input)))};
  const StageChain& chain = chains_of<Chains>(input.scalar_type()).sums;
  const Rows in(input), w(weight), g(grad), sums(result.weights);
  const PerRow root(roots), out(result.rows);
  for_row_blocks(rows, [&](int64_t block, int64_t row) {
    const std::array<void*, 4> streams = {in.row(row), w.row(0), g.row(row), sums.row(block)};
    const double scalars[] = {root[row]};
    out.set(row, run_sum(chain, {.count = input.size(-1), .streams = streams, .scalars = scalars}));
  });
  return result;
}

Tensor rms_gradient_on_cpu(const Tensor& some_grad, const Tensor& some_input, const Tensor& roots, const Tensor& weight,
                           const Tensor& means) {
  const Tensor grad = some_grad.contiguous(), input = some_input.contiguous(), result = at::empty_like(input);
  const StageChain& chain = chains_of<Chains>(input.scalar_type()).gradient;
  const Rows in(input), w(weight), g(grad), out(result);
  const PerRow root(roots), mean(means);
  for_row_blocks(rows_in(input), [&](int64_t, int64_t row) {
    const std::array<void*, 4> streams = {in.row(row), w.row(0), g.row(row), out.row(row)};
    const double scalars[] = {root[row], mean[row]};
    chain.run({.count = input.size(-1), .streams = streams, .scalars = scalars});
  });
  return result;
}

}  // namespace axonn
