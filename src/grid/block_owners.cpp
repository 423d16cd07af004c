#include "axonn/grid/block_owners.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"

namespace axonn {

BlockOwners::BlockOwners(int members, int64_t block) : members_(members), block_(block) {
  AXONN_CHECK(members >= 1 && block >= 1 && block <= int64_t{1} << 31, "grid.block_owners",
              "blocks need at least 1 owner and from 1 to 2^31 elements, got ", members, " owners and ", block,
              " elements");
}

int64_t BlockOwners::count_below(int member, int64_t end) const {
  const int64_t cycle = block_ * members_;
  return end / cycle * block_ + std::clamp<int64_t>(end % cycle - member * block_, 0, block_);
}

std::vector<Range> BlockOwners::ranges(int member, Range range) const {
  if (range.size() <= 0) return {};
  if (members_ == 1) return {range};
  const int64_t cycle = block_ * members_;
  std::vector<Range> owned;
  for (int64_t block = range.begin / cycle * cycle + member * block_; block < range.end; block += cycle)
    if (const Range part{std::max(block, range.begin), std::min(block + block_, range.end)}; part.size() > 0)
      owned.push_back(part);
  return owned;
}

}  // namespace axonn
