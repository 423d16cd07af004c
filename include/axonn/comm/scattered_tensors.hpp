#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/grid/shard_spec.hpp"

namespace axonn {

struct NamedTensor {
  std::string name;  // for errors and checkpoints
  at::Tensor tensor;
};

// Tensors that lie anywhere, as one buffer without a copy (CoCoNet, "Operations on Scattered
// Tensors"). The buffer has places. Each tensor begins at a multiple of kBucket places, in the
// given order, and the places behind its last element, up to the next bucket, are empty. Empty
// places have no memory: messages carry zeros for them.
//
// The table has 12 bytes per bucket: the address of the bucket's tensor, and the offset of the
// bucket's last element in it. With `numbered` it has 4 more: the number of the tensor. The tensors
// stay alive with it.
class ScatteredTensors {
 public:
  static constexpr int64_t kBucket = 1024;

  // UserError that names the tensor which is undefined, not contiguous, not on the CPU, of another
  // type than the first one, has more than 2^32 elements, or shares memory with another one.
  explicit ScatteredTensors(std::vector<NamedTensor> tensors, bool numbered = false);

  int64_t size() const { return static_cast<int64_t>(addresses_.size()) * kBucket; }  // places, with empty ones
  at::ScalarType scalar_type() const { return type_; }
  int64_t element_size() const { return element_bytes_; }
  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  const std::vector<int64_t>& begins() const { return begins_; }  // first place of each tensor
  int64_t table_bytes() const;
  // Whether elements have the same places, whatever their type.
  bool same_places(const ScatteredTensors& other) const { return offsets_ == other.offsets_; }

  // Of a place that is not empty.
  std::byte* address(int64_t place) const {
    const auto bucket = static_cast<size_t>(place / kBucket);
    return addresses_[bucket] + (first_of(bucket) + place % kBucket) * element_bytes_;
  }
  // The number of the tensor that has the place's bucket. Only if `numbered`.
  int number(int64_t place) const { return static_cast<int>(numbers_[static_cast<size_t>(place / kBucket)]); }

  // Calls visit(Range) for each longest part of `places` that lies in one tensor. Empty places are
  // in none.
  template <typename Visit>
  void for_each_run(Range places, Visit visit) const {
    for (int64_t begin = places.begin; begin < places.end;) {
      auto bucket = static_cast<size_t>(begin / kBucket);
      int64_t end = static_cast<int64_t>(bucket) * kBucket + count_of(bucket);
      while (end < places.end && end % kBucket == 0 && ++bucket < offsets_.size() && first_of(bucket) > 0)
        end += count_of(bucket);
      end = std::min(end, places.end);
      if (begin < end) visit(Range{begin, end});
      begin = begin < end ? end : (begin / kBucket + 1) * kBucket;
    }
  }

  // Elements [begin, end) of one tensor's places, flat.
  at::Tensor narrowed(Range run) const;

 private:
  int64_t first_of(size_t bucket) const { return static_cast<int64_t>(offsets_[bucket]) / kBucket * kBucket; }
  int64_t count_of(size_t bucket) const { return static_cast<int64_t>(offsets_[bucket]) % kBucket + 1; }

  std::vector<NamedTensor> tensors_;
  at::ScalarType type_ = at::kFloat;
  int64_t element_bytes_ = 4;
  std::vector<int64_t> begins_;
  std::vector<std::byte*> addresses_;  // the table: one entry per bucket in each
  std::vector<uint32_t> offsets_, numbers_;
};

// UserError that names two tensors that share memory, if there are any.
void check_apart(const std::vector<NamedTensor>& tensors);

}  // namespace axonn
