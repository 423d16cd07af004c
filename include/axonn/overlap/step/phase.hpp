#pragma once

#include <cstdint>

namespace axonn {

// What the program is doing with a network: weights are needed in another order in each.
enum class Phase : uint8_t { train, recompute, backward, evaluate, generate };

}  // namespace axonn
