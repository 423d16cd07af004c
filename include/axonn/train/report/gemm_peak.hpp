#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace axonn {

// FLOP/s of square matrix products on this rank: the median of three windows of 30 ms, or of one
// product each, by the kernel that is the fastest in its first window. Utilisation is relative to
// it. Ranks that share a node's cores must call it at the same time: a window then holds the time
// that others take, so the sum over ranks is the machine's.
double measure_gemm_flops(c10::ScalarType dtype, c10::Device device);

}  // namespace axonn
