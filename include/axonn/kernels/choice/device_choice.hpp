#pragma once

#include <cstdint>

#include <c10/core/Device.h>

namespace axonn {

// The device that a rank computes on: `wanted` itself if it has a number, else the CUDA device
// number `local_rank` modulo the number of devices. Several ranks may share one. It becomes the
// current device of this thread. UserError if this build or this machine has none, or if this build
// has no code for its kind.
c10::Device choose_device(c10::Device wanted, int local_rank);

// Bytes of memory of the GPU that choose_device() chooses, divided by the ranks of this machine
// that share it.
int64_t gpu_bytes_per_rank(c10::Device wanted, int local_rank, int local_ranks);

// How LibTorch computes on a GPU.
struct GpuKernels {
  bool tf32 = false;  // products and convolutions of fp32 round their operands to TF32 (10 bits of mantissa)
  // Kernels whose sums have a fixed order: flash attention in the place of cuDNN's, and an
  // operation that LibTorch has no such kernel for is an error. It is slower. NCCL's sums keep
  // their own order.
  bool deterministic = false;
  // cuDNN measures its kernels for each new shape of a convolution and keeps the fastest. The first
  // step is slower, and takes memory for their workspaces.
  bool cudnn_benchmark = false;
};

// For the whole process, before its first product.
void set_gpu_kernels(const GpuKernels& kernels);

}  // namespace axonn
