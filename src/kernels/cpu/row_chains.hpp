#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/coconet/language/element_type.hpp"
#include "axonn/coconet/stages/pointwise_kernel.hpp"
#include "axonn/coconet/stages/stage_chain.hpp"
#include "axonn/core/error.hpp"
#include "kernels/cpu/parallel.hpp"

// The common part of layers that compute a tensor's rows on a CPU by stage chains, a row per call.
namespace axonn {

// The type in which a chain computes.
inline coconet::ElementType inside_of(coconet::ElementType type) {
  return type == coconet::ElementType::fp64 ? coconet::ElementType::fp64 : coconet::ElementType::fp32;
}

// The numbers of a stream, in the type in which a chain computes.
inline coconet::PointwiseKernel::Value loaded(coconet::PointwiseKernel& kernel, const char* name,
                                              coconet::ElementType type) {
  return kernel.cast(kernel.load(kernel.stream(name, type)), inside_of(type));
}

// Chains for every floating-point type, each made by Chains(ElementType) on first use.
template <typename Chains>
const Chains& chains_of(at::ScalarType type) {
  using coconet::ElementType;
  static const std::array<Chains, 4> chains = {Chains(ElementType::fp64), Chains(ElementType::fp32),
                                               Chains(ElementType::bf16), Chains(ElementType::fp16)};
  AXONN_ASSERT(at::isFloatingType(type), "stage chains of layers are for floating-point numbers");
  return chains[type == at::kDouble ? 0 : type == at::kFloat ? 1 : type == at::kBFloat16 ? 2 : 3];
}

// The type of numbers per row, and of sums over rows.
inline at::ScalarType wide_type_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

inline int64_t rows_in(const at::Tensor& tensor) { return tensor.numel() == 0 ? 0 : tensor.numel() / tensor.size(-1); }

// One thread's work, and the rows of one partial sum over rows: so sums do not depend on the number
// of threads.
constexpr int64_t kRowsPerSum = 64;
inline int64_t sums_over(int64_t rows) { return (rows + kRowsPerSum - 1) / kRowsPerSum; }

// Calls work(block, row) for every row, a block of kRowsPerSum rows on one thread.
template <typename Work>
void for_row_blocks(int64_t rows, const Work& work) {
  parallel_for(0, sums_over(rows), 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      for (int64_t row = block * kRowsPerSum; row < std::min(rows, (block + 1) * kRowsPerSum); ++row) work(block, row);
  });
}

// The rows of a contiguous tensor (..., n).
class Rows {
 public:
  explicit Rows(const at::Tensor& tensor)
      : data_(static_cast<std::byte*>(tensor.mutable_data_ptr())), bytes_(tensor.size(-1) * tensor.element_size()) {}
  void* row(int64_t number) const { return data_ + number * bytes_; }
  int64_t row_bytes() const { return bytes_; }

 private:
  std::byte* data_;
  int64_t bytes_;
};

// The sum that a chain's one reduction gives for a row.
inline double run_sum(const coconet::StageChain& chain, coconet::StageCall call) {
  thread_local std::vector<double> partials;
  partials.resize(static_cast<size_t>(coconet::StageChain::num_partials(call.count)));
  double* const all[] = {partials.data()};
  call.partials = all;
  chain.run(call);
  return coconet::StageChain::combine(ReduceOp::sum, partials);
}

}  // namespace axonn
