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

// LibTorch multiplies matrices on a CPU in two ways, and which is faster depends on the processor, the type and the sizes: mm (MKL in fp32,
// which keeps to AVX2 on AMD) and the product of oneDNN.
enum class GemmKernel : uint8_t { mm, onednn };

template <>
struct Names<GemmKernel> {
  static constexpr Named<GemmKernel> all[] = {{"mm", GemmKernel::mm}, {"onednn", GemmKernel::onednn}};
};

// a b^T of a (m, k) and b (n, k), plus `bias` (n); any strides. `onednn` only where gemm_available() says so.
at::Tensor gemm(GemmKernel kernel, const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& bias = {});
// block (m, n) (+)= a b^T, where the block may be of a wider type.
void gemm_into(GemmKernel kernel, const at::Tensor& block, const at::Tensor& a, const at::Tensor& b, bool add);
// oneDNN: fp32 and bf16 on a CPU, in a LibTorch that has it. mm: always.
bool gemm_available(GemmKernel kernel, at::ScalarType dtype, c10::Device device);

// What a layer multiplies for: its operands lie in memory differently each time.
enum class GemmUse : uint8_t { output /* x w^T */, grad_input /* g w */, grad_weight /* g^T x */ };

// The kernel for every product, by its use and size. A value that all ranks must share: the kernels round differently.
class GemmChoice {
 public:
  GemmChoice() = default;  // mm for all
  explicit GemmChoice(GemmKernel kernel) { kernels_.fill(kernel); }
  // What to_string() gave. UserError for anything else.
  explicit GemmChoice(std::string_view text);

  // Of m rows of k input features and n output features; a product of nothing is mm's.
  GemmKernel operator()(GemmUse use, int64_t m, int64_t n, int64_t k) const {
    return m * n * k == 0 ? GemmKernel::mm : kernels_[place(use, m, n, k)];
  }
  void set(GemmUse use, int64_t m, int64_t n, int64_t k, GemmKernel kernel) { kernels_[place(use, m, n, k)] = kernel; }
  // "mm", "onednn", or one of them for each use and size: "mm,onednn,onednn,..."
  std::string to_string() const;
  bool operator==(const GemmChoice&) const = default;

 private:
  static size_t place(GemmUse use, int64_t m, int64_t n, int64_t k);
  std::array<GemmKernel, 9> kernels_{};  // of three uses, three sizes each
};

// The faster kernel of each use and size on this machine while all ranks measure, as rank 0 of `everyone` saw it. Takes half a second;
// every rank calls it. Where there is nothing to choose (a GPU, fp64) it returns at once.
GemmChoice choose_gemm(Communicator& everyone, at::ScalarType dtype, c10::Device device);

}  // namespace axonn
