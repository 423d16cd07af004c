#include "checkpoint/read/part_search.hpp"

#include <algorithm>
#include <utility>

#include "checkpoint/shards/held_range.hpp"

namespace axonn {
namespace {

int64_t index_on(const GridShape& grid, const Coordinate& at) {
  return ((int64_t{at.data} * grid.z + at.z) * grid.y + at.y) * grid.x + at.x;
}

bool intersect(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }

// Whether two ranks hold indices of a dim in common.
bool meet(const std::vector<Dim::LocalRange>& a, const std::vector<Dim::LocalRange>& b) {
  return std::ranges::any_of(a, [&](const auto& one) {
    return std::ranges::any_of(b, [&](const auto& other) { return intersect(one.global, other.global); });
  });
}

// From the first to behind the last element of the global tensor that a rank stores.
Range extent(const ShardSpec& spec, const GridShape& grid, const Coordinate& at) {
  const auto mapped = mapped_ranges(spec, grid, at, spec.block_range(grid, at, kRangeAlignment));
  if (mapped.empty()) return {};
  return {mapped.front().global_begin, mapped.back().global_begin + mapped.back().size};
}

}  // namespace

PartSearch::PartSearch(const Manifest& manifest, const GridShape& shape, const Coordinate& at)
    : manifest_(manifest), shape_(shape), at_(at) {
  for (size_t i = 0; i < manifest.parts.size(); ++i) {
    const auto& part = manifest.parts[i];
    by_axes_[part.replicated.bits()].push_back(i);
    part_of_[part.replicated.bits()].emplace(index_on(manifest.grid, part.at), i);
  }
  if (manifest.has_rule()) return;
  by_tensor_.resize(manifest.tensors.size());
  for (size_t i = 0; i < manifest.parts.size(); ++i)
    for (const auto& stored : manifest.parts[i].ranges) by_tensor_[stored.tensor].push_back(i);
}

std::optional<size_t> PartSearch::part_of(AxisSet replicated, Coordinate at) const {
  for (const Axis axis : kAxes)
    if (replicated.contains(axis)) at[axis] = 0;
  const AxisSet axes = manifest_.has_rule() ? replicated : AxisSet();
  const auto& parts = part_of_[axes.bits()];
  const auto found = parts.find(index_on(manifest_.grid, at));
  return found == parts.end() ? std::nullopt : std::optional(found->second);
}

// Of the ranks of the cut's group that wrote something, any tells where the range lay.
std::optional<std::vector<size_t>> PartSearch::own_part(size_t index, const CheckpointTensor& wanted) const {
  const auto& saved = manifest_.tensors[index];
  const GridShape& grid = manifest_.grid;
  if (!wanted.cut || saved.cut != wanted.cut || saved.spec != wanted.spec) return std::nullopt;
  if (grid.x != shape_.x || grid.y != shape_.y || grid.z != shape_.z) return std::nullopt;
  const AxisSet cut = wanted.cut->axis_set(), replicated = wanted.replicated_axes();
  if (grid.size(cut) != shape_.size(cut)) return std::nullopt;
  Coordinate first = at_;
  for (const Axis axis : wanted.cut->axes) first[axis] = 0;
  for (int64_t member = 0; member < grid.size(cut); ++member) {
    Coordinate at = first;
    int64_t rest = member;
    for (const Axis axis : wanted.cut->axes) {
      at[axis] = static_cast<int>(rest % grid[axis]);
      rest /= grid[axis];
    }
    const auto part = part_of(replicated, at);
    if (!part) continue;
    const auto stored = manifest_.range_in(manifest_.parts[*part], index);
    if (!stored) continue;
    if (stored->arena_offset != wanted.arena_offset) return std::nullopt;
    const auto mine = part_of(replicated, at_);
    return mine ? std::vector<size_t>{*mine} : std::vector<size_t>();
  }
  return std::nullopt;
}

std::vector<size_t> PartSearch::overlapping(const ShardSpec& saved, const ShardSpec& wanted,
                                            const std::vector<size_t>& parts) const {
  const GridShape& grid = manifest_.grid;
  std::vector<std::vector<bool>> meets(saved.dims.size());  // by dim, and coordinate along its axis
  for (size_t dim = 0; dim < saved.dims.size(); ++dim) {
    const auto here = wanted.dims[dim].local_ranges(shape_, at_);
    const auto axis = saved.dims[dim].axis();
    for (int i = 0; i < (axis ? grid[*axis] : 1); ++i) {
      Coordinate at;
      if (axis) at[*axis] = i;
      meets[dim].push_back(meet(saved.dims[dim].local_ranges(grid, at), here));
    }
  }
  const Range here = extent(wanted, shape_, at_);
  std::map<std::array<int, 3>, bool> known;  // by x, y, z
  std::vector<size_t> found;
  for (const size_t part : parts) {
    const Coordinate& at = manifest_.parts[part].at;
    bool may = true;
    for (size_t dim = 0; dim < saved.dims.size() && may; ++dim) {
      const auto axis = saved.dims[dim].axis();
      may = meets[dim][static_cast<size_t>(axis ? at[*axis] : 0)];
    }
    if (!may) continue;
    const auto [place, fresh] = known.try_emplace({at.x, at.y, at.z});
    if (fresh) place->second = intersect(extent(saved, grid, at), here);
    if (place->second) found.push_back(part);
  }
  return found;
}

std::vector<size_t> PartSearch::holding(size_t index, const CheckpointTensor& wanted) {
  const auto& saved = manifest_.tensors[index];
  if (!manifest_.has_rule()) return overlapping(saved.spec, wanted.spec, by_tensor_[index]);
  const AxisSet replicated = replicated_axes(saved.spec, saved.cut);
  for (const Searched& before : searched_)
    if (before.replicated == replicated && before.saved == saved.spec && before.wanted == wanted.spec)
      return before.parts;
  searched_.push_back(
      {saved.spec, wanted.spec, replicated, overlapping(saved.spec, wanted.spec, by_axes_[replicated.bits()])});
  return searched_.back().parts;
}

}  // namespace axonn
