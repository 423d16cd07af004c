#include "overlap/execute/arena_memory.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "overlap/execute/flat_memory.hpp"

namespace axonn {
using namespace coconet;

ArenaMemory::ArenaMemory(const SchedulePlan& plan, Arena& arena, const Grid& grid, int rank)
    : PlanMemory(plan, grid.ranks()),
      places_(arena.scattered_weights()),
      slots_(static_cast<int64_t>(arena.slots().size())),
      buffers_(plan.buffers().size()),
      partials_(plan.values().size()) {
  for (const OwnedRegion& owned : arena.regions()) add_region(owned, arena, grid.coordinate(rank));
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const PlanBuffer& planned = plan.buffers()[i];
    const Shape& shape = planned.type.shape;
    if (shape.empty()) continue;  // a partial result
    Buffer buffer;
    int64_t count = arena.size();
    if (shape.back().is_one()) {
      buffer.kind = Kind::rows;
      count = slots_;
    } else if (planned.type.distribution.is(coconet::Placement::sliced)) {
      buffer.kind = Kind::own;
      count = own_elements_;
    }
    const bool given = planned.declared && planned.type.distribution.is(coconet::Placement::local);
    if (given && arena.is_scattered())
      buffer.scattered = arena.scattered_gradients();
    else
      buffer.data = given ? arena.gradients() : at::zeros({count}, dtype_of(planned.type.element));
    buffers_[i] = std::move(buffer);
  }
}

void ArenaMemory::add_region(const OwnedRegion& owned, const Arena& arena, const Coordinate& at) {
  UpdateRegion region{owned, owned.owners.ranges(owned.member, owned.range), {}};
  own_elements_ += owned.own_count(owned.range);
  for (const ArenaSlot& slot : arena.slots()) {
    if (slot.range.size() == 0 || slot.offset < owned.range.begin || slot.offset >= owned.range.end) continue;
    bool counted = true;
    for (const Axis axis : {Axis::x, Axis::y}) counted &= !slot.spec.replicated_axes().contains(axis) || at[axis] == 0;
    region.pieces.push_back({{slot.offset, slot.offset + slot.range.size()}, slot.number, counted});
  }
  std::ranges::sort(region.pieces, {}, [](const UpdatePiece& piece) { return piece.range.begin; });
  regions_.push_back(std::move(region));
}

const ArenaMemory::Buffer* ArenaMemory::find(BufferId id) const {
  return id && buffers_[id.index()] ? &*buffers_[id.index()] : nullptr;
}

const ArenaMemory::Buffer& ArenaMemory::buffer(BufferId id) const {
  const Buffer* const found = find(id);
  AXONN_ASSERT(found != nullptr, id ? plan().name(id) : "no buffer");
  return *found;
}

BufferId ArenaMemory::contributions(ValueId reduction) const { return plan().home(plan()[reduction].operands[0]); }

const UpdateRegion& ArenaMemory::region_of(Range range) const {
  const auto region = std::ranges::find_if(
      regions_, [&](const UpdateRegion& one) { return one.range.begin <= range.begin && range.end <= one.range.end; });
  AXONN_ASSERT(region != regions_.end(), range.begin, " to ", range.end);
  return *region;
}

void ArenaMemory::bind(BufferId id, const at::Tensor& data) {
  Buffer& mine = buffers_[id.index()].value();
  AXONN_ASSERT(data.numel() == mine.data.numel() && data.scalar_type() == mine.data.scalar_type(), plan().name(id));
  mine.data = data;
}

void ArenaMemory::bind(BufferId id, std::shared_ptr<const ScatteredTensors> scattered) {
  Buffer& mine = buffers_[id.index()].value();
  AXONN_ASSERT(mine.kind == Kind::arena && scattered->scalar_type() == mine.data.scalar_type(), plan().name(id));
  mine.data = at::Tensor();
  mine.scattered = std::move(scattered);
}

std::vector<UpdatePiece>::const_iterator ArenaMemory::piece_at(const UpdateRegion& region, int64_t element) const {
  if (places_ == nullptr)
    return std::ranges::upper_bound(region.pieces, element, {}, [](const UpdatePiece& one) { return one.range.end; });
  auto piece = region.pieces.begin() + places_->number(element);
  return piece->range.end > element ? piece : piece + 1;
}

std::byte* ArenaMemory::address(const Buffer& buffer, const OwnedRegion& region, int64_t element) const {
  if (buffer.scattered) return buffer.scattered->address(element);
  const int64_t place = buffer.kind == Kind::own ? region.own_place(element) : element;
  return static_cast<std::byte*>(buffer.data.data_ptr()) + place * static_cast<int64_t>(buffer.data.element_size());
}

}  // namespace axonn
