#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/overlap/step/arena.hpp"

namespace axonn {

// Copies the gathered buffer of a bundle of several parameters to where each block is contiguous
// (ArenaSlot::place). Both are flat.
void unpack(const Arena& arena, const ArenaBundle& bundle, const at::Tensor& buffer, const at::Tensor& unpacked);

// Stores a gradient of one parameter in the buffer of its bundle of several, or adds it. The
// gradient has the block's elements; undefined: zeros. Storing also clears the padding.
void pack(const ArenaSlot& slot, const ArenaBundle& bundle, const at::Tensor& gradient, bool add,
          const at::Tensor& buffer);

}  // namespace axonn
