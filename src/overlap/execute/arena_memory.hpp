#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/coconet/plan/schedule_plan.hpp"
#include "axonn/comm/collective_buffer.hpp"
#include "axonn/overlap/step/arena.hpp"
#include "overlap/execute/plan_memory.hpp"

namespace axonn {

// Elements of one parameter in an arena, without padding.
struct UpdatePiece {
  Range range;
  int slot = 0;
  bool counted = false;  // this rank's copy is the one that reductions count, among those along X and Y
};

struct UpdateRegion : OwnedRegion {
  std::vector<Range> own;           // the elements that this rank owns, ascending
  std::vector<UpdatePiece> pieces;  // ascending
};

// The elements of a network: an arena, or tensors that are scattered in memory, beside state of the
// rank's own elements and numbers per parameter.
class ArenaMemory final : public PlanMemory {
 public:
  ArenaMemory(const coconet::SchedulePlan& plan, Arena& arena, const Grid& grid, int rank);

  enum class Kind : uint8_t {
    arena,  // an element for each of the arena
    own,    // only for this rank's own elements
    rows    // a number per slot of the arena
  };
  struct Buffer {
    Kind kind = Kind::arena;
    at::Tensor data;  // flat; undefined if scattered
    std::shared_ptr<const ScatteredTensors> scattered = nullptr;
  };
  std::unique_ptr<LoopMemory> loop(const coconet::StepKernel& kernel) override;
  // The elements that this rank computes in such a loop, as tasks for threads; `unshared`: of the
  // regions that no other rank holds.
  std::vector<Range> tasks(const coconet::StepKernel& kernel, bool unshared) const;
  const Buffer& buffer(coconet::BufferId id) const;
  const Buffer* find(coconet::BufferId id) const;  // null: it is a number
  // The buffer that a reduction of gradients reads.
  coconet::BufferId contributions(coconet::ValueId reduction) const;
  // Uses other memory of the same size and type.
  void bind(coconet::BufferId id, const at::Tensor& data);
  void bind(coconet::BufferId id, std::shared_ptr<const ScatteredTensors> scattered);

  std::byte* address(const Buffer& buffer, const OwnedRegion& region, int64_t element) const;
  // A range of the arena in a buffer of all its elements.
  static CollectiveBuffer elements(const Buffer& buffer, Range range) {
    if (buffer.scattered) return {buffer.scattered, range};
    return buffer.data.narrow(0, range.begin, range.size());
  }
  // Elements of the arena in a buffer: any of a whole one, own ones of a buffer of own elements; of
  // one tensor if the buffer is scattered.
  static at::Tensor narrowed(const Buffer& buffer, const OwnedRegion& region, Range range) {
    if (buffer.scattered) return buffer.scattered->narrowed(range);
    const int64_t begin = buffer.kind == Kind::own ? region.own_place(range.begin) : range.begin;
    return buffer.data.narrow(0, begin, range.size());
  }
  // Calls visit(Range) for parts of the range that narrowed() takes of every buffer.
  template <typename Visit>
  void for_each_part(Range range, Visit visit) const {
    if (places_ == nullptr) return visit(range);
    places_->for_each_run(range, visit);
  }
  // The first piece of the region that ends after the element.
  std::vector<UpdatePiece>::const_iterator piece_at(const UpdateRegion& region, int64_t element) const;
  static std::byte* row_address(const Buffer& buffer, int slot) {
    return static_cast<std::byte*>(buffer.data.data_ptr()) + slot * static_cast<int64_t>(buffer.data.element_size());
  }
  const std::vector<UpdateRegion>& regions() const { return regions_; }
  const UpdateRegion& region_of(Range range) const;
  int64_t slots() const { return slots_; }
  int64_t own_elements() const { return own_elements_; }

  // The result of a reduction over the network from this rank's elements, until all ranks' are
  // combined: one number, or one per slot.
  std::vector<double>& partials(coconet::ValueId reduction) { return partials_[reduction.index()]; }

 private:
  void add_region(const OwnedRegion& owned, const Arena& arena, const Coordinate& at);

  std::shared_ptr<const ScatteredTensors> places_;  // null unless the arena is scattered
  std::vector<UpdateRegion> regions_;
  int64_t slots_ = 0, own_elements_ = 0;
  std::vector<std::optional<Buffer>> buffers_;  // as the plan's
  std::vector<std::vector<double>> partials_;   // by value
};

}  // namespace axonn
