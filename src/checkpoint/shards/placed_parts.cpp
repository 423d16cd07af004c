#include "checkpoint/shards/placed_parts.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "checkpoint/shards/held_range.hpp"

namespace axonn {
namespace {

// A block keeps the order of the global tensor, so parts that ascend in one ascend in the other.
void check_order(const std::vector<PlacedPart>& placed) {
  AXONN_ASSERT(std::ranges::is_sorted(placed, {}, &PlacedPart::global), "runs out of order");
}

}  // namespace

std::vector<PlacedPart> placed_in_file(const CheckpointReader::Description& tensor, const GridShape& shape,
                                       const Coordinate& at, Range range, int64_t place) {
  const HeldRange held(tensor.cut, shape, at, range, place);
  std::vector<PlacedPart> placed;
  int64_t offset = 0;
  for (const Range& part : held.parts())
    for (const MappedRange& mapped : mapped_ranges(tensor.spec, shape, at, part)) {
      placed.push_back({mapped.global_begin, offset, mapped.size});
      offset += mapped.size;
    }
  check_order(placed);
  return placed;
}

std::vector<PlacedPart> placed_in_shard(const CheckpointTensor& tensor, const GridShape& shape, const Coordinate& at) {
  const HeldRange held = held_range(tensor, shape, at);
  std::vector<PlacedPart> placed;
  for (const Range& part : held.parts())
    for (const MappedRange& mapped : mapped_ranges(tensor.spec, shape, at, part))
      placed.push_back({mapped.global_begin, held.count_below(mapped.local_begin), mapped.size});
  check_order(placed);
  return placed;
}

std::vector<PartCopy> intersect(const std::vector<PlacedPart>& from, const std::vector<PlacedPart>& to) {
  std::vector<PartCopy> copies;
  auto a = from.begin();
  auto b = to.begin();
  while (a != from.end() && b != to.end()) {
    const int64_t begin = std::max(a->global, b->global), a_end = a->global + a->size, b_end = b->global + b->size;
    if (begin < std::min(a_end, b_end))
      copies.push_back({a->offset + begin - a->global, b->offset + begin - b->global, std::min(a_end, b_end) - begin});
    if (a_end <= b_end) {
      ++a;
    } else {
      ++b;
    }
  }
  return copies;
}

}  // namespace axonn
