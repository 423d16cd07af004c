#pragma once

#include <cstddef>

#include <c10/core/ScalarType.h>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// result[i] = accumulated[i] (op) own[i] for `count` elements; `result` may be either operand. bf16
// and fp16 are computed in fp32 and rounded to nearest even. For max and min a NaN on either side
// wins.
using ReduceKernel = void (*)(void* result, const void* accumulated, const void* own, size_t count);

// The fastest kernel that this processor supports. UserError for a dtype that collectives do not
// take.
ReduceKernel reduce_kernel(c10::ScalarType dtype, ReduceOp op);

// Throws UserError, naming `where`, unless collectives take this dtype.
void check_dtype(c10::ScalarType dtype, const char* where);

}  // namespace axonn
