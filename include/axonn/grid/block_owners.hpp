#pragma once

#include <cstdint>
#include <vector>

#include "axonn/grid/shard_spec.hpp"

namespace axonn {

// The owners of an arena's elements in a group: element i belongs to member
// (i / block) mod members. So owners do not depend on the messages into which an arena is split. A
// member that keeps something only for its own elements of a range keeps it in one buffer, in
// ascending order. This buffer is its compact shard of the range.
class BlockOwners {
 public:
  static constexpr int64_t kBlock = 4096;  // elements, in collectives with an arena_offset

  // UserError unless members >= 1 and 1 <= block <= 2^31.
  explicit BlockOwners(int members, int64_t block = kBlock);

  int members() const { return members_; }
  int owner(int64_t element) const { return static_cast<int>(element / block_ % members_); }
  // How many elements of [0, end) the member owns.
  int64_t count_below(int member, int64_t end) const;
  // How many elements of `range` the member owns: the size of its compact shard. Owned elements of
  // a part are consecutive in the shard; they begin at place count({range.begin, part.begin}).
  int64_t count(int member, Range range) const {
    return count_below(member, range.end) - count_below(member, range.begin);
  }
  // The elements of `range` that the member owns, as ascending ranges that do not touch.
  std::vector<Range> ranges(int member, Range range) const;

 private:
  int members_;
  int64_t block_;
};

}  // namespace axonn
