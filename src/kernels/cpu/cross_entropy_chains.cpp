#include "kernels/cpu/cross_entropy_chains.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <ATen/Dispatch.h>
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

constexpr int64_t kElementsPerThread = 1 << 15;

// Streams: logits.
StageChain maximum_chain(ElementType type) {
  PointwiseKernel kernel;
  kernel.reduce(ReduceOp::max, kernel.load(kernel.stream("logits", type)));
  return StageChain(kernel);
}

// exp(logit - maximum), with the scalar "maximum".
Value exponential(PointwiseKernel& kernel, ElementType type) {
  const ElementType inside = inside_of(type);
  const Value logit = kernel.cast(kernel.load(kernel.stream("logits", type)), inside);
  return kernel.apply(PointwiseOp::fast_exponential,
                      {kernel.apply(PointwiseOp::subtract, {logit, kernel.scalar("maximum", inside)})});
}

StageChain sum_chain(ElementType type) {
  PointwiseKernel kernel;
  kernel.reduce(ReduceOp::sum, exponential(kernel, type));
  return StageChain(kernel);
}

// Streams: logits, gradient. Scalars: maximum, factor = scale / sum.
StageChain gradient_chain(ElementType type) {
  PointwiseKernel kernel;
  const Value exp = exponential(kernel, type),
              grad = kernel.apply(PointwiseOp::multiply, {exp, kernel.scalar("factor", inside_of(type))});
  kernel.store(kernel.stream("gradient", type), kernel.cast(grad, type));
  return StageChain(kernel);
}

struct Chains {
  explicit Chains(ElementType type)
      : maximum(maximum_chain(type)), sum(sum_chain(type)), gradient(gradient_chain(type)) {}
  StageChain maximum, sum, gradient;
};

void for_rows(const Tensor& logits, const auto& work) {
  const int64_t grain = std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(1, logits.size(1)));
  parallel_for(0, logits.size(0), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) work(row);
  });
}

// A number per row: the reduction of a chain, with `scalars(row)` as the call's.
Tensor reduced(const Tensor& logits, int64_t columns, const StageChain& chain, ReduceOp kind, const Tensor& maxima) {
  const Tensor result = at::empty({logits.size(0)}, logits.options().dtype(wide_type_of(logits)));
  const Rows rows(logits);
  AT_DISPATCH_FLOATING_TYPES(result.scalar_type(), "row reductions", [&] {
    scalar_t* out = result.mutable_data_ptr<scalar_t>();
    const scalar_t* subtracted = maxima.defined() ? maxima.const_data_ptr<scalar_t>() : nullptr;
    for_rows(logits, [&](int64_t row) {
      thread_local std::vector<double> partials;
      partials.resize(static_cast<size_t>(StageChain::num_partials(columns)));
      void* const streams[] = {rows.row(row)};
      double* const all[] = {partials.data()};
      const double scalar = subtracted == nullptr ? 0 : static_cast<double>(subtracted[row]);
      chain.run({.count = columns,
                 .streams = streams,
                 .scalars = {&scalar, subtracted == nullptr ? 0u : 1u},
                 .partials = all});
      out[row] = static_cast<scalar_t>(StageChain::combine(kind, partials));
    });
  });
  return result;
}

}  // namespace

Tensor row_maxima_on_cpu(const Tensor& logits, int64_t columns) {
  return reduced(logits, columns, chains_of<Chains>(logits.scalar_type()).maximum, ReduceOp::max, {});
}

Tensor row_sums_on_cpu(const Tensor& logits, int64_t columns, const Tensor& maxima) {
  return reduced(logits, columns, chains_of<Chains>(logits.scalar_type()).sum, ReduceOp::sum, maxima);
}

Tensor cross_entropy_gradient_on_cpu(const Tensor& logits, int64_t columns, const Tensor& maxima, const Tensor& sums,
                                     const Tensor& targets, double scale) {
  const Tensor result = at::empty_like(logits), greatest = maxima.to(at::kDouble), sum = sums.to(at::kDouble);
  const StageChain& chain = chains_of<Chains>(logits.scalar_type()).gradient;
  const Rows in(logits), out(result);
  const int64_t* target = targets.const_data_ptr<int64_t>();
  const double *maximum = greatest.const_data_ptr<double>(), *whole = sum.const_data_ptr<double>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, logits.scalar_type(), "cross_entropy_gradient", [&] {
    for_rows(logits, [&](int64_t row) {
      const auto* logit = static_cast<const scalar_t*>(in.row(row));
      auto* grad = static_cast<scalar_t*>(out.row(row));
      const bool ignored = target[row] == kIgnored;
      std::fill(grad + (ignored ? 0 : columns), grad + logits.size(1), scalar_t(0));
      if (ignored || columns == 0) return;
      const double scalars[] = {maximum[row], scale / whole[row]};
      void* const streams[] = {in.row(row), out.row(row)};
      chain.run({.count = columns, .streams = streams, .scalars = scalars});
      if (target[row] == kElsewhere) return;
      const double probability = std::exp(static_cast<double>(logit[target[row]]) - maximum[row]) / whole[row];
      grad[target[row]] = static_cast<scalar_t>((probability - 1) * scale);
    });
  });
  return result;
}

}  // namespace axonn
