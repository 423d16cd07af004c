#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "axonn/comm/communicator.hpp"
#include "comm/collectives/block_layout.hpp"
#include "comm/collectives/reduction_kernels.hpp"

namespace axonn {

// The effect of a collective, independent of how its messages travel. With `reduces`, the
// contributions to every element are reduced at the element's owner. With `gathers`, the owner's
// elements go to all members. With an epilogue, the owner calls it for a few KiB of its elements at
// a time, and what it writes is gathered instead of the sums.
struct CollectivePlan {
  static constexpr int64_t kBlockBytes = 8 << 10;  // so that partial sums stay in the L1 cache

  BlockLayout layout;
  bool reduces = false;
  bool gathers = false;
  int64_t element_bytes = 1;
  int64_t result_bytes = element_bytes;  // size of a gathered element
  ReduceKernel kernel = nullptr;
  Epilogue epilogue = {};
  int64_t segment_bytes = 0;  // CollectiveOptions::segment_bytes

  // Element i of the buffer is at input + i * element_bytes, and its result at output + i *
  // result_bytes. Only the elements that this rank keeps exist in the output.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  // A scattered buffer has a table instead. Its place `first_place` is element 0 of the buffer.
  std::shared_ptr<const ScatteredTensors> inputs = {}, outputs = {};
  int64_t first_place = 0;

  const std::byte* in(int64_t place) const {
    return inputs ? inputs->address(first_place + place) : input + place * element_bytes;
  }
  std::byte* out(int64_t place) const {
    return outputs ? outputs->address(first_place + place) : output + place * result_bytes;
  }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements * element_bytes); }
  size_t bytes_of_results(int64_t elements) const { return static_cast<size_t>(elements * result_bytes); }
  int64_t widest() const { return std::max(element_bytes, result_bytes); }
  int64_t block_elements() const { return kBlockBytes / widest(); }
  // Chunks of an owner's elements are multiples of it.
  int64_t chunk_unit() const { return epilogue ? kEpilogueUnit : 1; }

  // As the layout's, but a range also lies in one tensor of a scattered buffer, and empty places
  // are in no range.
  template <typename Visit>
  void for_each_range(int owner, int64_t begin, int64_t count, Visit visit) const {
    const ScatteredTensors* const table = inputs ? inputs.get() : outputs.get();
    layout.for_each_range(owner, begin, count, [&](int64_t place, int64_t first, int64_t length) {
      if (table == nullptr) return visit(place, first, length);
      const int64_t start = first_place + place;
      table->for_each_run({start, start + length},
                          [&](Range run) { visit(run.begin - first_place, first + run.begin - start, run.size()); });
    });
  }
  bool contiguous(int owner, int64_t begin, int64_t count, int64_t& place) const;
  // Lets the tensors go.
  void release();

  // A gather starts with this rank's own part in the output.
  void place_own_part(int rank) const;
};

// The plan of a fused collective. Its layout and buffers have been checked.
CollectivePlan fused_plan(const FusedCollective& collective, BlockLayout layout, const CollectiveOptions& options);

}  // namespace axonn
