#include "overlap/execute/update_chunks.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace axonn {
namespace {

// Parameters are numbered in the order of the forward pass.
int first_slot(const UpdateRegion& region, Range range) {
  int first = std::numeric_limits<int>::max();
  for (const UpdatePiece& piece : region.pieces)
    if (piece.range.begin < range.end && range.begin < piece.range.end) first = std::min(first, piece.slot);
  return first;
}

}  // namespace

std::vector<UpdateChunk> update_chunks(const Arena& arena, const std::vector<UpdateRegion>& regions,
                                       const OverlapPolicy& policy) {
  std::vector<std::pair<int, UpdateChunk>> ordered;
  for (const UpdateRegion& region : regions) {
    if (!region.shared()) continue;
    const int64_t wanted =
        bucket_elements(policy, region.range.size(), static_cast<int64_t>(c10::elementSize(arena.types().gradients)));
    const int64_t most =
        std::max<int64_t>((wanted + BlockOwners::kBlock - 1) / BlockOwners::kBlock, 1) * BlockOwners::kBlock;
    for (int64_t begin = region.range.begin; begin < region.range.end;) {
      const int64_t end = std::min(region.range.end, (begin / most + 1) * most);
      const Range range{begin, end};
      ordered.push_back({first_slot(region, range), {&region, range}});
      begin = end;
    }
  }
  std::ranges::stable_sort(ordered, {}, [](const auto& one) { return one.first; });
  std::vector<UpdateChunk> chunks;
  for (const auto& [slot, chunk] : ordered) chunks.push_back(chunk);
  return chunks;
}

}  // namespace axonn
