#pragma once

#include <cstdint>

#include "axonn/grid/block_owners.hpp"
#include "axonn/grid/grid.hpp"

namespace axonn {

// The part of an arena that the same ranks hold. Each of them owns some of its blocks. A buffer of
// own elements has those of all regions, one after the other, in ascending order.
struct OwnedRegion {
  Range range;   // place in the arena
  AxisSet axes;  // along which the ranks hold the same elements
  BlockOwners owners;
  int member = 0;         // this rank among them
  int64_t own_begin = 0;  // place of its first own element in a buffer of own elements

  bool shared() const { return owners.members() > 1; }
  // Place of an own element in a buffer of own elements, or of the next one.
  int64_t own_place(int64_t element) const { return own_begin + own_count({range.begin, element}); }
  int64_t own_count(Range part) const { return owners.count(member, part); }
};

}  // namespace axonn
