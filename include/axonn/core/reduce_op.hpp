#pragma once

#include <cstdint>

namespace axonn {

// How many values become one: in collectives, in programs and in their kernels.
enum class ReduceOp : uint8_t { sum, max, min };

}  // namespace axonn
