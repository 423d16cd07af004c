#pragma once

#include <cstdint>
#include <vector>

#include "axonn/grid/shard_spec.hpp"

namespace axonn {

// Which member of a group owns which elements of an arena, in collectives with an arena_offset:
// element i belongs to member (i / kBlock) mod members. So owners do not depend on the messages
// into which an arena is split. An owner's elements have the numbers 0, 1, ... in ascending place.
// A rank that keeps something only for its own elements keeps it in a buffer in that order.
class ArenaOwners {
 public:
  static constexpr int64_t kBlock = 4096;  // elements

  explicit ArenaOwners(int members) : members_(members) {}

  int owner(int64_t element) const { return static_cast<int>(element / kBlock % members_); }
  // How many elements of [0, end) `owner` owns, which is the number of its next element.
  int64_t count_below(int owner, int64_t end) const;
  int64_t count(int owner, Range range) const {
    return count_below(owner, range.end) - count_below(owner, range.begin);
  }
  // The elements of `range` that `owner` owns, as ascending ranges of the arena.
  std::vector<Range> ranges(int owner, Range range) const;

 private:
  int members_;
};

}  // namespace axonn
