#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "axonn/core/names.hpp"

namespace axonn {

// LibTorch multiplies matrices on a CPU in two ways: mm (MKL in fp32, which uses only AVX2 on AMD)
// and oneDNN's product. The processor, the type and the sizes decide which one is faster.
enum class GemmKernel : uint8_t { mm, onednn };

template <>
struct Names<GemmKernel> {
  static constexpr Named<GemmKernel> all[] = {{"mm", GemmKernel::mm}, {"onednn", GemmKernel::onednn}};
};

// a b^T of a (m, k) and b (n, k), plus `bias` (n); any strides. Use `onednn` only where
// gemm_available() is true.
at::Tensor gemm(GemmKernel kernel, const at::Tensor& a, const at::Tensor& b,
                const std::optional<at::Tensor>& bias = {});
// block (m, n) (+)= a b^T; the block may have a wider type.
void gemm_into(GemmKernel kernel, const at::Tensor& block, const at::Tensor& a, const at::Tensor& b, bool add);
// oneDNN: on a CPU, if LibTorch has it, fp32, and bf16 with AVX-512. mm: always.
bool gemm_available(GemmKernel kernel, at::ScalarType dtype, c10::Device device);

}  // namespace axonn
