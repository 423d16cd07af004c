#include "axonn/grid/shard_spec.hpp"

#include <algorithm>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"

namespace axonn {
namespace {

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t round_up(int64_t value, int64_t multiple) { return ceil_divide(value, multiple) * multiple; }

int64_t padded_part(const Segment& segment, int parts) {
  return round_up(ceil_divide(segment.size, parts), segment.tile);
}

int64_t local_size(const Segment& segment, const GridShape& shape, const Coordinate& at) {
  if (!segment.axis) return segment.size;
  const int parts = shape[*segment.axis];
  return segment.tile > 0 ? padded_part(segment, parts) : even_part(segment.size, parts, at[*segment.axis]).size();
}

// Indices within the segment that the rank holds.
Range held(const Segment& segment, const GridShape& shape, const Coordinate& at) {
  if (!segment.axis) return {0, segment.size};
  const int parts = shape[*segment.axis], index = at[*segment.axis];
  if (segment.tile == 0) return even_part(segment.size, parts, index);
  const int64_t rows = padded_part(segment, parts);
  return {std::min(segment.size, rows * index), std::min(segment.size, rows * (index + 1))};
}

void check_splits(const ShardSpec& spec) {
  AxisSet seen;
  for (const Dim& dim : spec.dims) {
    const auto axis = dim.axis();
    if (!axis) continue;
    AXONN_CHECK(*axis == Axis::x || *axis == Axis::y, "grid.shard_spec", "dims are split over axis x or y, got ",
                spec.to_string());
    AXONN_CHECK(!seen.contains(*axis), "grid.shard_spec", "two dims are split over axis ", to_string(*axis), ": ",
                spec.to_string());
    seen = seen | *axis;
  }
}

struct LocalDim {
  int64_t local = 0;
  int64_t global = 0;
  std::vector<Dim::LocalRange> local_ranges;

  bool is_whole() const {
    return local == global && local_ranges.size() == 1 && local_ranges[0].global == Range{0, global};
  }

  std::optional<int64_t> global_index(int64_t index) const {
    for (const Dim::LocalRange& local_range : local_ranges)
      if (index >= local_range.local_begin && index < local_range.local_begin + local_range.global.size())
        return local_range.global.begin + index - local_range.local_begin;
    return std::nullopt;
  }
};

// A block as rows of one dim. The dims before it are visited index by index. The dims after it are
// whole, so they belong to its elements.
struct RowView {
  std::vector<LocalDim> outer;
  LocalDim row;

  RowView(const ShardSpec& spec, const GridShape& shape, const Coordinate& at) {
    for (const Dim& dim : spec.dims)
      outer.push_back({dim.local_size(shape, at), dim.size(), dim.local_ranges(shape, at)});
    row = {1, 1, {{.local_begin = 0, .global = {0, 1}}}};
    while (!outer.empty() && row.is_whole()) {
      prepend(std::move(outer.back()));
      outer.pop_back();
    }
  }

  // The place in the global tensor where row `index` begins; nothing for padding.
  std::optional<int64_t> global_begin(int64_t index) const {
    int64_t begin = 0, stride = row.global;
    for (auto dim = outer.rbegin(); dim != outer.rend(); ++dim) {
      const auto place = dim->global_index(index % dim->local);
      if (!place) return std::nullopt;
      begin += *place * stride;
      index /= dim->local;
      stride *= dim->global;
    }
    return begin;
  }

 private:
  void prepend(LocalDim dim) {
    const int64_t inner = row.global;
    for (Dim::LocalRange& local_range : dim.local_ranges) {
      local_range.local_begin *= inner;
      local_range.global = {local_range.global.begin * inner, local_range.global.end * inner};
    }
    row = {dim.local * inner, dim.global * inner, std::move(dim.local_ranges)};
  }
};

void append(std::vector<MappedRange>& found, const MappedRange& mapped) {
  if (!found.empty()) {
    MappedRange& last = found.back();
    if (last.local_begin + last.size == mapped.local_begin && last.global_begin + last.size == mapped.global_begin) {
      last.size += mapped.size;
      return;
    }
  }
  found.push_back(mapped);
}

std::string text_of(const Dim& dim) {
  return join(dim.segments, "|", [](const Segment& segment) {
    std::string text = std::to_string(segment.size);
    if (segment.axis) text.append("/").append(axonn::to_string(*segment.axis));
    if (segment.axis && segment.tile == 1) text += "(padded)";
    if (segment.axis && segment.tile > 1) text += detail::concatenate("(padded to ", segment.tile, ")");
    return text;
  });
}

}  // namespace

Range even_part(int64_t size, int parts, int index) { return {size * index / parts, size * (index + 1) / parts}; }

int64_t Dim::size() const {
  int64_t sum = 0;
  for (const Segment& segment : segments) sum += segment.size;
  return sum;
}

std::optional<Axis> Dim::axis() const {
  if (segments.empty()) return std::nullopt;
  const auto common = segments.front().axis;
  AXONN_CHECK(std::ranges::all_of(segments, [&](const Segment& s) { return s.axis == common; }), "grid.shard_spec",
              "the segments of a dim are all split over the same axis or all whole, got ", text_of(*this));
  return common;
}

int64_t Dim::local_size(const GridShape& shape, const Coordinate& at) const {
  int64_t sum = 0;
  for (const Segment& segment : segments) sum += axonn::local_size(segment, shape, at);
  return sum;
}

std::vector<Dim::LocalRange> Dim::local_ranges(const GridShape& shape, const Coordinate& at) const {
  std::vector<LocalRange> found;
  int64_t local = 0, global = 0;
  for (const Segment& segment : segments) {
    const Range part = held(segment, shape, at);
    const LocalRange local_range{.local_begin = local, .global = {global + part.begin, global + part.end}};
    const bool follows = !found.empty() && found.back().local_begin + found.back().global.size() == local &&
                         found.back().global.end == local_range.global.begin;
    if (part.size() > 0 && follows)
      found.back().global.end = local_range.global.end;
    else if (part.size() > 0)
      found.push_back(local_range);
    local += axonn::local_size(segment, shape, at);
    global += segment.size;
  }
  return found;
}

std::vector<int64_t> ShardSpec::global_shape() const {
  std::vector<int64_t> sizes;
  for (const Dim& dim : dims) sizes.push_back(dim.size());
  return sizes;
}

int64_t ShardSpec::global_numel() const {
  int64_t product = 1;
  for (const Dim& dim : dims) product *= dim.size();
  return product;
}

std::vector<int64_t> ShardSpec::block_shape(const GridShape& shape, const Coordinate& at) const {
  check_splits(*this);
  std::vector<int64_t> sizes;
  for (const Dim& dim : dims) sizes.push_back(dim.local_size(shape, at));
  return sizes;
}

int64_t ShardSpec::block_numel(const GridShape& shape, const Coordinate& at) const {
  int64_t product = 1;
  for (const int64_t size : block_shape(shape, at)) product *= size;
  return product;
}

int64_t ShardSpec::range_numel(const GridShape& shape, const Coordinate& at, int64_t align) const {
  AXONN_CHECK(align >= 1, "grid.shard_spec", "ranges are aligned to at least 1 element, got ", align);
  return round_up(ceil_divide(block_numel(shape, at), over_z ? shape.z : 1), align);
}

Range ShardSpec::block_range(const GridShape& shape, const Coordinate& at, int64_t align) const {
  const int64_t block = block_numel(shape, at), size = range_numel(shape, at, align);
  const int64_t begin = over_z ? size * at.z : 0;
  return {std::min(block, begin), std::min(block, begin + size)};
}

AxisSet ShardSpec::replicated_axes() const {
  AxisSet axes = Axis::data;
  for (const Axis axis : {Axis::x, Axis::y, Axis::z})
    if (!uses(axis)) axes = axes | axis;
  return axes;
}

bool ShardSpec::uses(Axis axis) const {
  if (axis == Axis::z) return over_z;
  return std::ranges::any_of(dims, [&](const Dim& dim) { return dim.axis() == axis; });
}

std::string ShardSpec::to_string() const { return "[" + join(dims, ", ", text_of) + "]" + (over_z ? " over z" : ""); }

std::vector<MappedRange> mapped_ranges(const ShardSpec& spec, const GridShape& shape, const Coordinate& at,
                                       Range range) {
  const int64_t block = spec.block_numel(shape, at);
  AXONN_CHECK(range.begin >= 0 && range.begin <= range.end && range.end <= block, "grid.runs", "range [", range.begin,
              ", ", range.end, ") is not within the block of ", block, " elements of ", spec.to_string());
  std::vector<MappedRange> found;
  if (range.size() == 0) return found;
  const RowView view(spec, shape, at);
  for (int64_t row = range.begin / view.row.local; row * view.row.local < range.end; ++row) {
    const auto global = view.global_begin(row);
    if (!global) continue;
    const int64_t local = row * view.row.local;
    for (const Dim::LocalRange& local_range : view.row.local_ranges) {
      const int64_t begin = std::max(range.begin, local + local_range.local_begin);
      const int64_t end = std::min(range.end, local + local_range.local_begin + local_range.global.size());
      if (begin < end)
        append(found,
               {begin, *global + local_range.global.begin + begin - local - local_range.local_begin, end - begin});
    }
  }
  return found;
}

}  // namespace axonn
