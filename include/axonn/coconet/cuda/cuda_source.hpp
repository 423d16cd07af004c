#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "axonn/coconet/stages/pointwise_kernel.hpp"

// Pointwise kernels as CUDA C++, for NVRTC or nvcc. A kernel's text has the meaning of its stage
// chain and, with cuda_options(), the same bits, reductions included. It needs no header.
namespace axonn::coconet {

// The basis of all kernels: once in a translation unit, before them. Its polynomials and roundings
// are the text of the stages' own headers.
std::string cuda_prelude();

// One function `extern "C" __global__ void NAME(...)`. Its arguments, each by value:
// - int64_t count: elements of this call;
// - a pointer per stream; bf16 and fp16 are uint16_t. Streams overlap as in StageCall;
// - a double per scalar, then a double per range value;
// - a MaskRun per dropout mask;
// - a double* per reduction: a partial result per StageChain::kReductionBlock elements.
// Launch: any number of blocks, of any multiple of 32 threads, both in x only. A thread computes
// every so many elements; with reductions, a warp computes whole blocks of them.
// UserError if `name` is no identifier, or the kernel has more than kMostNumbers numbers.
std::string cuda_kernel(const PointwiseKernel& kernel, std::string_view name);

// The same as a `__device__` function: for a kernel that has its numbers on the device. All threads
// of its launch call it with equal arguments.
std::string cuda_function(const PointwiseKernel& kernel, std::string_view name);

// Options of the compiler without which results may differ: an fma only where the kernel has one,
// and IEEE's division, square root and subnormal numbers.
std::vector<std::string> cuda_options();

}  // namespace axonn::coconet
