#pragma once

#include <cstdint>

namespace axonn {

// The use that a program makes of a network. Each phase needs the weights in another order.
enum class Phase : uint8_t { train, recompute, backward, evaluate, generate };

}  // namespace axonn
