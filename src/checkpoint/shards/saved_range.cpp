#include "checkpoint/shards/saved_range.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

#include "checkpoint/shards/held_range.hpp"

namespace axonn {
namespace {

bool writes(AxisSet replicated, const Coordinate& at) {
  return std::ranges::all_of(kAxes, [&](Axis axis) { return at[axis] == 0 || !replicated.contains(axis); });
}

// The parts of `range` that are not padding.
std::vector<Range> unpadded(const ShardSpec& spec, const GridShape& shape, const Coordinate& at, Range range) {
  const auto is_padded = [](const Segment& segment) { return segment.tile > 0; };
  if (std::ranges::none_of(spec.dims, [&](const Dim& dim) { return std::ranges::any_of(dim.segments, is_padded); }))
    return range.size() == 0 ? std::vector<Range>{} : std::vector{range};
  std::vector<Range> parts;
  for (const MappedRange& mapped : mapped_ranges(spec, shape, at, range)) {
    if (!parts.empty() && parts.back().end == mapped.local_begin) {
      parts.back().end += mapped.size;
    } else {
      parts.push_back({mapped.local_begin, mapped.local_begin + mapped.size});
    }
  }
  return parts;
}

// The ranges of a rank's shard that hold its elements of `parts` of the block.
std::vector<Range> in_shard(const HeldRange& held, const std::vector<Range>& parts) {
  std::vector<Range> found;
  for (const Range& part : parts) {
    const Range range{held.count_below(part.begin), held.count_below(part.end)};
    if (range.size() > 0) found.push_back(range);
  }
  return found;
}

}  // namespace

std::optional<SavedRange> saved_by(const ShardSpec& spec, const std::optional<CheckpointCut>& cut, int64_t place,
                                   const GridShape& shape, const Coordinate& at) {
  if (!writes(replicated_axes(spec, cut), at)) return std::nullopt;
  const Range range = spec.block_range(shape, at, kRangeAlignment);
  const auto parts = unpadded(spec, shape, at, range);
  if (parts.empty()) return std::nullopt;
  return SavedRange{range, in_shard(HeldRange(cut, shape, at, range, place), parts)};
}

std::optional<SavedRange> saved_by(const CheckpointTensor& tensor, const GridShape& shape, const Coordinate& at) {
  return saved_by(tensor.spec, tensor.cut, tensor.arena_offset, shape, at);
}

int64_t elements_of(const std::vector<Range>& parts) {
  int64_t elements = 0;
  for (const Range& part : parts) elements += part.size();
  return elements;
}

std::vector<Staging::Bytes> spans_of(const at::Tensor& host, const std::vector<Range>& parts) {
  const std::span all(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes());
  const auto element = static_cast<size_t>(host.element_size());
  std::vector<Staging::Bytes> bytes;
  for (const Range& part : parts)
    bytes.push_back(all.subspan(static_cast<size_t>(part.begin) * element, static_cast<size_t>(part.size()) * element));
  return bytes;
}

}  // namespace axonn
