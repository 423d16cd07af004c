#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include <c10/util/SmallVector.h>

#include "axonn/grid/block_owners.hpp"

namespace axonn {

// The owners of a buffer's elements among the members of a group. The contributions to an element
// are added in chain order owner+1, owner+2, ..., owner, so the layout determines the bits of a
// reduction. An owner's elements are numbered 0 .. count(owner)-1 in ascending place.
class BlockLayout {
 public:
  // One contiguous part per member; nearly equal parts when only the total is given.
  static BlockLayout equal(int owners, int64_t elements);
  static BlockLayout parts(std::span<const int64_t> counts);
  static BlockLayout one_owner(int owners, int owner, int64_t elements);

  // The buffer is [arena_offset, arena_offset + elements) of an arena (BlockOwners).
  static BlockLayout cyclic(int owners, int64_t elements, int64_t arena_offset);

  int owners() const { return owners_; }
  int64_t elements() const { return elements_; }
  int64_t count(int owner) const;
  int64_t largest_count() const;

  // Place in the buffer of the owner's first element (contiguous layouts only).
  int64_t part_begin(int owner) const { return begins_[owner]; }

  // Different layouts have different fingerprints, in all likelihood.
  uint32_t fingerprint() const;

  // True when the owner's elements [begin, begin + count) are contiguous; `place` is then the place
  // of the first one in the buffer.
  bool contiguous(int owner, int64_t begin, int64_t count, int64_t& place) const;

  // Calls visit(place, first, count) for each contiguous range of the owner's elements [begin,
  // begin + count); `first` counts from `begin`.
  template <typename Visit>
  void for_each_range(int owner, int64_t begin, int64_t count, Visit visit) const {
    for (int64_t done = 0; done < count;) {
      const PlacedRange range = range_at(owner, begin + done);
      const int64_t length = std::min(range.length, count - done);
      visit(range.place, done, length);
      done += length;
    }
  }

 private:
  struct PlacedRange {
    int64_t place;
    int64_t length;
  };
  PlacedRange range_at(int owner, int64_t element) const;

  int owners_ = 1;
  int64_t elements_ = 0;
  int64_t arena_offset_ = -1;             // < 0: contiguous parts
  c10::SmallVector<int64_t, 17> begins_;  // contiguous: owners + 1 borders
};

}  // namespace axonn
