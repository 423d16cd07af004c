#include "axonn/comm/arena_owners.hpp"

#include <algorithm>

namespace axonn {

int64_t ArenaOwners::count_below(int owner, int64_t end) const {
  const int64_t cycle = kBlock * members_;
  return end / cycle * kBlock + std::clamp<int64_t>(end % cycle - owner * kBlock, 0, kBlock);
}

std::vector<Range> ArenaOwners::ranges(int owner, Range range) const {
  const int64_t cycle = kBlock * members_;
  std::vector<Range> owned;
  for (int64_t block = range.begin / cycle * cycle + owner * kBlock; block < range.end; block += cycle)
    if (const Range part{std::max(block, range.begin), std::min(block + kBlock, range.end)}; part.size() > 0)
      owned.push_back(part);
  return owned;
}

}  // namespace axonn
