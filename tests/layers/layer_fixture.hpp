#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/context.hpp"
#include "axonn/layers/layout.hpp"
#include "support/every_grid.hpp"

// For tests that compare a layer on a grid with plain LibTorch on whole tensors, in fp64.
namespace axonn::test {

inline constexpr double kRelative = 1e-12;

inline Context context_on(const GridShape& shape) { return Context(test_environment(), shape, {.dtype = at::kDouble}); }

// The same numbers on every rank.
inline at::Tensor whole_tensor(int64_t seed, at::IntArrayRef sizes) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return at::randn(sizes, generator, at::TensorOptions().dtype(at::kDouble));
}

// This rank's rows (dim 0): split over Z and data.
inline at::Tensor my_rows(const Context& context, const at::Tensor& whole) {
  const int64_t groups = int64_t{context.shape().z} * context.shape().data,
                mine = int64_t{context.at().data} * context.shape().z + context.at().z;
  const Range range = even_part(whole.size(0), static_cast<int>(groups), static_cast<int>(mine));
  return whole.narrow(0, range.begin, range.size()).contiguous();
}

// This rank's features (last dim) under a layout; padding is zero.
inline at::Tensor my_features(const Context& context, const at::Tensor& whole, const Layout& layout) {
  const Dim dim = layout.dim(whole.size(-1));
  std::vector<int64_t> sizes = whole.sizes().vec();
  sizes.back() = dim.local_size(context.shape(), context.at());
  const at::Tensor part = at::zeros(sizes, whole.options());
  for (const auto& each : dim.local_ranges(context.shape(), context.at()))
    part.narrow(-1, each.local_begin, each.global.size())
        .copy_(whole.narrow(-1, each.global.begin, each.global.size()));
  return part;
}

inline Value my_value(const Context& context, const at::Tensor& whole, const Layout& layout) {
  return {my_features(context, my_rows(context, whole), layout), whole.size(-1), layout};
}

// As my_value(), of the context's type and with a gradient; `sizes` has one rank's rows.
inline Value my_leaf(const Context& context, int64_t seed, std::vector<int64_t> sizes, const Layout& layout) {
  sizes[0] *= int64_t{context.shape().z} * context.shape().data;
  Value value = my_value(context, whole_tensor(seed, sizes), layout);
  value.tensor = value.tensor.to(context.options().dtype).requires_grad_();
  return value;
}

// The elements of `whole` that this rank stores of a parameter.
inline at::Tensor my_range(const Context& context, const ArenaSlot& slot, const at::Tensor& whole) {
  const at::Tensor flat = whole.contiguous().flatten(), part = at::zeros({slot.range.size()}, whole.options());
  for (const MappedRange& mapped : mapped_ranges(slot.spec, context.shape(), context.at(), slot.range))
    part.narrow(0, mapped.local_begin - slot.range.begin, mapped.size)
        .copy_(flat.narrow(0, mapped.global_begin, mapped.size));
  return part;
}

inline void fill(const Context& context, const ShardedParameter& parameter, const at::Tensor& whole) {
  const at::NoGradGuard no_grad;
  parameter.shard().detach().copy_(my_range(context, parameter.slot(), whole));
}

inline void expect_near(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  if (got.numel() == 0) return;
  const double scale = std::max(expected.abs().max().item<double>(), 1e-300);
  EXPECT_LE((got - expected).abs().max().item<double>() / scale, kRelative) << what;
}

inline void expect_gradient(const Context& context, const ShardedParameter& parameter, const at::Tensor& whole,
                            const std::string& what) {
  const at::Tensor expected = my_range(context, parameter.slot(), whole);
  ASSERT_EQ(parameter.gradient().numel(), expected.numel()) << what;
  if (expected.numel() == 0) return;
  const double scale = whole.abs().max().item<double>();
  EXPECT_LE((parameter.gradient() - expected).abs().max().item<double>(), kRelative * scale)
      << what << " on " << context.shape().to_string();
}

}  // namespace axonn::test
