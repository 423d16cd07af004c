#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace axonn {

// FLOP/s of the fastest square matrix product on this rank, measured for about 0.2 s. Utilisation
// is relative to it. Ranks that share a node's cores measure at the same time, so the sum over
// ranks is the machine's.
double measure_gemm_flops(c10::ScalarType dtype, c10::Device device);

}  // namespace axonn
