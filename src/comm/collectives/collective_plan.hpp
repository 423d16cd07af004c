#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "axonn/comm/communicator.hpp"
#include "comm/collectives/block_layout.hpp"
#include "comm/collectives/reduction_kernels.hpp"

namespace axonn {

// What a collective does, independent of how its messages travel. With `reduces`, the contributions
// to every element are reduced at the element's owner. With `gathers`, the owner's elements go to
// all members. With an epilogue, the owner calls it for a few KiB of its elements at a time, and
// what it writes is gathered instead of the sums.
struct CollectivePlan {
  static constexpr int64_t kBlockBytes = 8 << 10;  // so that partial sums stay in the L1 cache

  BlockLayout layout;
  bool reduces = false;
  bool gathers = false;
  int64_t element_bytes = 1;
  int64_t result_bytes = element_bytes;  // size of a gathered element
  ReduceKernel kernel = nullptr;
  Epilogue epilogue = {};

  // Element i of the buffer is at input + i * element_bytes, and its result at output + i *
  // result_bytes. Only the elements that this rank keeps exist in the output.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;

  const std::byte* in(int64_t place) const { return input + place * element_bytes; }
  std::byte* out(int64_t place) const { return output + place * result_bytes; }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements * element_bytes); }
  size_t bytes_of_results(int64_t elements) const { return static_cast<size_t>(elements * result_bytes); }
  int64_t widest() const { return std::max(element_bytes, result_bytes); }
  int64_t block_elements() const { return kBlockBytes / widest(); }
  // Chunks of an owner's elements are multiples of it.
  int64_t chunk_unit() const { return epilogue ? kEpilogueUnit : 1; }

  // A gather starts with this rank's own part in the output.
  void place_own_part(int rank) const;
};

}  // namespace axonn
