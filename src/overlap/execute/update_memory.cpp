#include "overlap/execute/update_memory.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "overlap/execute/executor_memory.hpp"

namespace axonn {
using namespace coconet;

UpdateMemory::UpdateMemory(const SchedulePlan& plan, Arena& arena, const Grid& grid, int rank)
    : places_(arena.scattered_weights()), slots_(static_cast<int64_t>(arena.slots().size())) {
  for (const OwnedRegion& owned : arena.regions()) add_region(owned, arena, grid.coordinate(rank));
  for (const PlanBuffer& planned : plan.buffers()) {
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
    buffers_.emplace(planned.name, std::move(buffer));
  }
}

void UpdateMemory::add_region(const OwnedRegion& owned, const Arena& arena, const Coordinate& at) {
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

const UpdateMemory::Buffer& UpdateMemory::buffer(const std::string& name) const {
  const auto found = buffers_.find(name);
  AXONN_ASSERT(found != buffers_.end(), "'", name, "'");
  return found->second;
}

void UpdateMemory::bind(const std::string& name, const at::Tensor& data) {
  Buffer& mine = buffers_.at(name);
  AXONN_ASSERT(data.numel() == mine.data.numel() && data.scalar_type() == mine.data.scalar_type(), "'", name, "'");
  mine.data = data;
}

void UpdateMemory::bind(const std::string& name, std::shared_ptr<const ScatteredTensors> scattered) {
  Buffer& mine = buffers_.at(name);
  AXONN_ASSERT(mine.kind == Kind::arena && scattered->scalar_type() == mine.data.scalar_type(), "'", name, "'");
  mine.data = at::Tensor();
  mine.scattered = std::move(scattered);
}

std::vector<UpdatePiece>::const_iterator UpdateMemory::piece_at(const UpdateRegion& region, int64_t element) const {
  if (places_ == nullptr)
    return std::ranges::upper_bound(region.pieces, element, {}, [](const UpdatePiece& one) { return one.range.end; });
  auto piece = region.pieces.begin() + places_->number(element);
  return piece->range.end > element ? piece : piece + 1;
}

std::byte* UpdateMemory::address(const Buffer& buffer, const UpdateRegion& region, int64_t element) const {
  if (buffer.scattered) return buffer.scattered->address(element);
  const int64_t place = buffer.kind == Kind::own ? region.own_place(element) : element;
  return static_cast<std::byte*>(buffer.data.data_ptr()) + place * static_cast<int64_t>(buffer.data.element_size());
}

}  // namespace axonn
