#include <algorithm>

#include "axonn/comm/communicator.hpp"
#include "overlap/execute/arena_memory.hpp"
#include "overlap/execute/flat_memory.hpp"

namespace axonn {
using namespace coconet;
namespace {

constexpr int64_t kTask = int64_t{1} << 15;  // elements per task of a thread

// The elements of an arena, parameter by parameter.
class ArenaLoop final : public LoopMemory {
 public:
  ArenaLoop(ArenaMemory& memory, const StepKernel& kernel)
      : memory_(memory), sums_(!kernel.sums.empty()), tasks_(memory.tasks(kernel, /*unshared=*/false)) {
    for (size_t i = 0; i < kernel.streams.size(); ++i) {
      const bool reduced = static_cast<int>(i) == kernel.reduced_stream;
      const StepKernel::Operand& stream = kernel.streams[i];
      streams_.push_back(&memory.buffer(reduced ? memory.contributions(stream.value) : stream.buffer));
    }
    for (const StepKernel::Operand& value : kernel.range_values) values_.push_back(&memory.buffer(value.buffer));
  }

  std::span<const Range> tasks() const override { return tasks_; }

  void for_each_piece(Range elements, c10::function_ref<void(const LoopPiece&)> visit) const override {
    const UpdateRegion& region = memory_.region_of(elements);
    for (auto piece = memory_.piece_at(region, elements.begin);
         piece != region.pieces.end() && piece->range.begin < elements.end; ++piece) {
      const Range part{std::max(elements.begin, piece->range.begin), std::min(elements.end, piece->range.end)};
      // Reductions are cut where every schedule cuts them.
      for (int64_t at = part.begin; at < part.end;) {
        const bool starts_inside = sums_ && at % kEpilogueUnit != 0;
        const int64_t end = starts_inside ? std::min(part.end, (at / kEpilogueUnit + 1) * kEpilogueUnit) : part.end;
        visit({.elements = {at, end}, .row = piece->slot, .counted = piece->counted, .region = &region});
        at = end;
      }
    }
  }

  void find(const LoopPiece& piece, std::span<void*> streams, std::span<double> values) const override {
    for (size_t i = 0; i < streams.size(); ++i)
      streams[i] = memory_.address(*streams_[i], *piece.region, piece.elements.begin);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = number_at(ArenaMemory::row_address(*values_[i], piece.row), values_[i]->data.scalar_type());
  }

  void store(const StepKernel::Sum& sum, std::vector<LoopPartial>& partials) override {
    const bool by_row = !sum.dims.empty();
    if (!by_row)
      for (LoopPartial& partial : partials) partial.row = 0;
    memory_.partials(sum.statement) = combined(sum.reduction, partials, by_row ? memory_.slots() : 1);
  }

 private:
  ArenaMemory& memory_;
  bool sums_;
  std::vector<Range> tasks_;
  std::vector<const ArenaMemory::Buffer*> streams_, values_;
};

// A number for each parameter, or for the whole network.
class RowLoop final : public LoopMemory {
 public:
  RowLoop(ArenaMemory& memory, const StepKernel& kernel) : memory_(memory), tasks_{{0, memory.slots()}} {
    for (const StepKernel::Operand& stream : kernel.streams) streams_.push_back(memory.find(stream.buffer));
  }

  std::span<const Range> tasks() const override { return tasks_; }
  void for_each_piece(Range elements, c10::function_ref<void(const LoopPiece&)> visit) const override {
    visit({.elements = elements});
  }
  void find(const LoopPiece& piece, std::span<void*> streams, std::span<double>) const override {
    for (size_t i = 0; i < streams.size(); ++i)
      streams[i] = ArenaMemory::row_address(*streams_[i], static_cast<int>(piece.elements.begin));
  }
  void store(const StepKernel::Sum& sum, std::vector<LoopPartial>& partials) override {
    memory_.partials(sum.statement) = combined(sum.reduction, partials, 1);
  }

 private:
  ArenaMemory& memory_;
  std::vector<Range> tasks_;
  std::vector<const ArenaMemory::Buffer*> streams_;
};

}  // namespace

std::unique_ptr<LoopMemory> ArenaMemory::loop(const StepKernel& kernel) {
  const Shape& shape = kernel.loop;
  if (shape.size() == 2 && !shape[1].is_one()) return std::make_unique<ArenaLoop>(*this, kernel);
  return std::make_unique<RowLoop>(*this, kernel);
}

// A loop that stores nothing but sums needs no elements of other owners.
std::vector<Range> ArenaMemory::tasks(const StepKernel& kernel, bool unshared) const {
  const bool own_only = kernel.distribution.is(coconet::Placement::sliced) || kernel.kernel.stores().empty();
  std::vector<Range> tasks;
  const auto add = [&](Range range) {
    for (int64_t begin = range.begin; begin < range.end;) {
      const int64_t end = std::min(range.end, (begin / kTask + 1) * kTask);
      tasks.push_back({begin, end});
      begin = end;
    }
  };
  for (const UpdateRegion& region : regions_) {
    if (unshared && region.shared()) continue;
    if (own_only)
      std::ranges::for_each(region.own, add);
    else
      add(region.range);
  }
  return tasks;
}

}  // namespace axonn
