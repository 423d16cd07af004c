#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "axonn/comm/communicator.hpp"
#include "axonn/kernels/cpu/gemm.hpp"

namespace axonn {

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
