#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/core/names.hpp"

namespace axonn {

// LibTorch multiplies matrices on a CPU in two ways: mm (MKL in fp32, which uses only AVX2 on AMD)
// and oneDNN's product. Which one is faster depends on the processor, the type and the sizes.
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

// A layer's products. The memory layout of the operands differs between them.
enum class GemmUse : uint8_t { output /* x w^T */, grad_input /* g w */, grad_weight /* g^T x */ };

// The kernel of every product, by use and size. All ranks must make the same choice, because the
// kernels round differently.
class GemmChoice {
 public:
  GemmChoice() = default;  // mm for every product
  explicit GemmChoice(GemmKernel kernel) { kernels_.fill(kernel); }
  // Parses a result of to_string(). UserError for any other text.
  explicit GemmChoice(std::string_view text);

  // The kernel for m rows, k input features and n output features. Empty products use mm.
  GemmKernel operator()(GemmUse use, int64_t m, int64_t n, int64_t k) const {
    return m * n * k == 0 ? GemmKernel::mm : kernels_[place(use, m, n, k)];
  }
  void set(GemmUse use, int64_t m, int64_t n, int64_t k, GemmKernel kernel) { kernels_[place(use, m, n, k)] = kernel; }
  // "mm", "onednn", or one of them for each use and size: "mm,onednn,onednn,..."
  std::string to_string() const;
  bool operator==(const GemmChoice&) const = default;

 private:
  static size_t place(GemmUse use, int64_t m, int64_t n, int64_t k);
  std::array<GemmKernel, 9> kernels_{};  // three uses, three sizes each
};

// Measures on all ranks at the same time and returns the faster kernel for each use and size, as
// measured on rank 0 of `everyone`. Takes half a second; every rank calls it. It returns at once
// where there is no choice (a GPU, fp64).
GemmChoice choose_gemm(Communicator& everyone, at::ScalarType dtype, c10::Device device);

}  // namespace axonn
