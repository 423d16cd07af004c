#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/collectives/block_layout.hpp"
#include "comm/collectives/reduction_kernels.hpp"

namespace axonn {

// What a collective does, independent of how its messages travel. With `reduces`, the contributions
// to every element are reduced at the element's owner. With `gathers`, the owner's elements go to
// all members.
struct CollectivePlan {
  BlockLayout layout;
  bool reduces = false;
  bool gathers = false;
  int64_t element_bytes = 1;
  ReduceKernel kernel = nullptr;

  // Element i of the buffer is at input + i * element_bytes. The same holds for the output, where
  // only the elements that this rank keeps exist.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;

  const std::byte* in(int64_t place) const { return input + place * element_bytes; }
  std::byte* out(int64_t place) const { return output + place * element_bytes; }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements * element_bytes); }

  // A gather starts with this rank's own part in the output.
  void place_own_part(int rank) const;
};

}  // namespace axonn
