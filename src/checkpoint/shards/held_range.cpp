#include "checkpoint/shards/held_range.hpp"

#include <limits>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// Far from the largest number, so that sums of places are numbers.
constexpr int64_t kLastOffset = std::numeric_limits<int64_t>::max() / 4;

}  // namespace

AxisSet replicated_axes(const ShardSpec& spec, const std::optional<CheckpointCut>& cut) {
  return cut ? spec.replicated_axes().without(cut->axis_set()) : spec.replicated_axes();
}

AxisSet CheckpointTensor::replicated_axes() const { return axonn::replicated_axes(spec, cut); }

HeldRange::HeldRange(const std::optional<CheckpointCut>& cut, const GridShape& shape, const Coordinate& at, Range range,
                     int64_t offset)
    : range_(range),
      to_arena_(cut ? offset - range.begin : 0),
      owners_(cut ? cut->owners(shape) : BlockOwners(1)),
      member_(cut ? cut->member(shape, at) : 0) {}

int64_t HeldRange::count_below(int64_t end) const {
  return owners_.count(member_, {range_.begin + to_arena_, end + to_arena_});
}

std::vector<Range> HeldRange::parts() const {
  auto parts = owners_.ranges(member_, {range_.begin + to_arena_, range_.end + to_arena_});
  for (Range& part : parts) part = {part.begin - to_arena_, part.end - to_arena_};
  return parts;
}

HeldRange held_range(const CheckpointTensor& tensor, const GridShape& shape, const Coordinate& at) {
  return {tensor.cut, shape, at, tensor.spec.block_range(shape, at, kRangeAlignment), tensor.arena_offset};
}

int64_t shard_numel(const CheckpointTensor& tensor, const GridShape& shape, const Coordinate& at) {
  const int64_t stored = tensor.spec.range_numel(shape, at, kRangeAlignment);
  return HeldRange(tensor.cut, shape, at, {0, stored}, tensor.arena_offset).count_below(stored);
}

void check_shard(const CheckpointTensor& tensor, const GridShape& shape, const Coordinate& at, const char* where) {
  const auto& [name, spec, shard, cut, offset] = tensor;
  if (cut) {
    check_cut(*cut, spec, name, where);
    check_place(offset, name, where);
  }
  const int64_t need = shard_numel(tensor, shape, at);
  const std::string held =
      cut ? detail::concatenate(", cut over ", cut->to_string(), " from place ", offset, " of the arena") : "";
  const int64_t elements = spec.block_range(shape, at, kRangeAlignment).size();
  const bool fits = shard.numel() == need || (!cut && shard.numel() == elements);
  AXONN_CHECK(shard.dim() == 1 && shard.is_contiguous() && fits, where, "the shard of ", name,
              " must be one contiguous range of ", need, " elements for ", spec.to_string(), held, ", on grid ",
              shape.to_string(), " at ", at.to_string(), ", got ", shard.numel(), " elements in ", shard.dim(),
              " dims");
}

void check_place(int64_t offset, const std::string& name, const char* where) {
  AXONN_CHECK(offset >= 0 && offset <= kLastOffset, where, "the cut of ", name,
              " needs the place of its range in the arena, got ", offset);
}

void check_cut(const CheckpointCut& cut, const ShardSpec& spec, const std::string& name, const char* where) {
  AxisSet seen;
  for (const Axis axis : cut.axes) {
    AXONN_CHECK(spec.replicated_axes().contains(axis), where, "the cut of ", name, " over ", cut.to_string(),
                " needs axes that replicate ", spec.to_string(), ", ", to_string(axis), " does not");
    AXONN_CHECK(!seen.contains(axis), where, "the cut of ", name, " must name axis ", to_string(axis), " only once");
    seen = seen | axis;
  }
  AXONN_CHECK(!seen.empty(), where, "the cut of ", name, " needs at least one axis");
}

}  // namespace axonn
