#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace axonn {

// FLOP/s of the best square matrix product this rank does right now, measured in a fifth of a second: what utilisation counts
// against. Ranks that share a node's cores measure together, so the sum over ranks is the machine's.
double measure_gemm_flops(c10::ScalarType dtype, c10::Device device);

}  // namespace axonn
