#pragma once

#include <string>
#include <vector>

#include "coconet/stages/kernel_oracle.hpp"

namespace axonn::coconet::test {

// The CUDA text of some kernels, compiled as C++ in one unit and loaded.
class HostKernels {
 public:
  // Runs the compiler that built the test; std::runtime_error with its words if it refuses.
  explicit HostKernels(std::vector<PointwiseKernel> kernels);
  ~HostKernels();
  HostKernels(const HostKernels&) = delete;
  HostKernels& operator=(const HostKernels&) = delete;

  const std::vector<PointwiseKernel>& kernels() const { return kernels_; }
  // One launch. Streams lie apart from each other; sum, maximum and minimum are of whole blocks.
  OracleResult run(size_t kernel, const OracleInputs& inputs, unsigned blocks, unsigned threads) const;
  // One launch on the caller's memory.
  void launch(size_t kernel, const OracleInputs& inputs, const std::vector<void*>& streams,
              const std::vector<double*>& partials, unsigned blocks, unsigned threads) const;

 private:
  std::vector<PointwiseKernel> kernels_;
  void* library_ = nullptr;
};

// "k17": kernel 17 of a unit.
std::string kernel_name(size_t kernel);
// The text of a unit: the prelude and all kernels.
std::string unit_text(const std::vector<PointwiseKernel>& kernels);

}  // namespace axonn::coconet::test
