#include "axonn/overlap/step/arena.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

#include <c10/core/ScalarType.h>

#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"
#include "axonn/grid/row_share.hpp"
#include "core/large_pages.hpp"

namespace axonn {
namespace {

constexpr int kSingles = -1;  // in the place of a bundle: all that have one parameter

ArenaSlot make_slot(const Arena::Entry& entry, const GridShape& shape, const Coordinate& at, int64_t alignment) {
  ArenaSlot slot{.name = entry.name, .spec = entry.spec, .decay = entry.decay};
  slot.stored = entry.spec.range_numel(shape, at, alignment);
  slot.block_shape = entry.spec.block_shape(shape, at);
  slot.range = entry.spec.block_range(shape, at, kRangeAlignment);
  for (int z = 0; z < (entry.spec.over_z ? shape.z : 1); ++z) {
    Coordinate member = at;
    member.z = z;
    slot.counts.push_back(entry.spec.block_range(shape, member, kRangeAlignment).size());
  }
  slot.counts_in_norm = true;
  for (const Axis axis : {Axis::x, Axis::y, Axis::z})
    if (entry.spec.replicated_axes().contains(axis) && at[axis] != 0) slot.counts_in_norm = false;
  return slot;
}

ShardSpec whole_spec(const at::Tensor& tensor) {
  ShardSpec spec;
  for (const int64_t size : tensor.sizes()) spec.dims.push_back(Dim::whole(size));
  if (spec.dims.empty()) spec.dims.push_back(Dim::whole(1));
  return spec;
}

}  // namespace

Arena::Arena(const std::vector<Entry>& entries, const Grid& grid, int rank, ArenaTypes types, c10::Device device,
             ArenaBuffers buffers)
    : types_(types) {
  lay_out(entries, grid, rank, kRangeAlignment);
  if (buffers == ArenaBuffers::none) return;
  const auto buffer = [&](at::ScalarType type) {
    at::Tensor memory = at::empty({size_}, at::TensorOptions().dtype(type).device(device));
    if (device.is_cpu()) advise_large_pages(memory.mutable_data_ptr(), memory.nbytes());
    return memory.zero_();
  };
  weights_ = buffer(types.weights);
  if (buffers == ArenaBuffers::all) gradients_ = buffer(types.gradients);
  master_ = types.master == types.weights ? weights_ : buffer(types.master);
}

Arena::Arena(const std::vector<PlacedWeight>& weights, const Grid& grid, int rank) {
  std::vector<Entry> entries;
  for (const PlacedWeight& each : weights) entries.push_back({each.name, whole_spec(each.weight), each.decay});
  lay_out(entries, grid, rank, ScatteredTensors::kBucket);
  std::vector<const ArenaSlot*> placed;
  for (const ArenaSlot& slot : slots_) placed.push_back(&slot);
  std::ranges::sort(placed, {}, &ArenaSlot::offset);
  std::vector<NamedTensor> in_place, gradients;
  for (const ArenaSlot* slot : placed) {
    const PlacedWeight& each = weights[static_cast<size_t>(slot->number)];
    in_place.push_back({each.name, each.weight});
    gradients.push_back({"gradient of " + each.name, each.gradient});
  }
  scattered_weights_ = std::make_shared<const ScatteredTensors>(std::move(in_place), /*numbered=*/true);
  scattered_gradients_ = std::make_shared<const ScatteredTensors>(std::move(gradients));
  AXONN_ASSERT(scattered_weights_->size() == size_ && scattered_gradients_->same_places(*scattered_weights_), size_);
  types_ = {.weights = scattered_weights_->scalar_type(), .gradients = scattered_gradients_->scalar_type()};
  types_.master = types_.weights == at::kDouble ? at::kDouble : at::kFloat;
}

void Arena::lay_out(const std::vector<Entry>& entries, const Grid& grid, int rank, int64_t alignment) {
  const Coordinate at = grid.coordinate(rank);
  std::map<int, int> numbers;  // an entry's bundle -> index in bundles_
  for (const Entry& entry : entries) {
    ArenaSlot& slot = slots_.emplace_back(make_slot(entry, grid.shape(), at, alignment));
    slot.number = static_cast<int>(slots_.size()) - 1;
    slot.bundle = static_cast<int>(bundles_.size());
    if (entry.bundle >= 0 && slot.sharded_over_z())
      slot.bundle = numbers.try_emplace(entry.bundle, slot.bundle).first->second;
    if (slot.bundle == static_cast<int>(bundles_.size())) bundles_.push_back({.name = slot.name});
    bundles_[static_cast<size_t>(slot.bundle)].slots.push_back(slot.number);
  }

  place(/*over_z=*/true, kSingles);
  std::vector<int> several;
  for (const ArenaSlot& slot : slots_ | std::views::reverse)
    if (!bundles_[static_cast<size_t>(slot.bundle)].single() &&
        std::ranges::find(several, slot.bundle) == several.end())
      several.push_back(slot.bundle);
  for (const int bundle : several) place(/*over_z=*/true, bundle);
  over_z_ = {0, size_};
  // The part that is not sharded over Z begins with a block of its owners.
  if (std::ranges::any_of(slots_, [](const ArenaSlot& slot) { return !slot.spec.over_z; }))
    size_ = (size_ + BlockOwners::kBlock - 1) / BlockOwners::kBlock * BlockOwners::kBlock;
  const int64_t begin = size_;
  place(/*over_z=*/false, kSingles);
  replicated_ = {begin, size_};
  for (ArenaBundle& bundle : bundles_) describe(bundle, at.z);

  const auto add_region = [&](Range range, AxisSet axes) {
    if (range.size() == 0) return;
    const Group group = grid.group(rank, axes);
    const int64_t own_before =
        regions_.empty() ? 0 : regions_.back().own_begin + regions_.back().own_count(regions_.back().range);
    regions_.push_back({range, axes, BlockOwners(group.size()), group.index, own_before});
  };
  add_region(over_z(), Axis::data);
  add_region(replicated(), kRowAxes);
}

// Places the slots of this bundle, or those of all that have one.
void Arena::place(bool over_z, int bundle) {
  const auto belongs = [&](const ArenaSlot& slot) {
    const bool single = bundles_[static_cast<size_t>(slot.bundle)].single();
    return slot.spec.over_z == over_z && (bundle == kSingles ? single : slot.bundle == bundle);
  };
  const bool decay_first = bundle == kSingles || sections_.back().decay;
  for (const bool decay : {decay_first, !decay_first}) {
    const auto chosen = [&](const ArenaSlot& slot) { return slot.decay == decay && belongs(slot); };
    if (bundle != kSingles && std::ranges::none_of(slots_, chosen)) continue;
    if (bundle == kSingles || sections_.back().decay != decay)
      sections_.push_back({.over_z = over_z, .decay = decay, .range = {size_, size_}});
    for (ArenaSlot& slot : slots_ | std::views::reverse) {
      if (!chosen(slot)) continue;
      slot.offset = size_;
      size_ += slot.stored;
    }
    sections_.back().range.end = size_;
  }
}

void Arena::describe(ArenaBundle& bundle, int z) {
  const auto slot_at = [&](int index) -> ArenaSlot& { return slots_[static_cast<size_t>(index)]; };
  std::ranges::sort(bundle.slots, {},
                    [&](int index) { return std::pair(slot_at(index).offset, slot_at(index).stored); });
  const ArenaSlot &first = slot_at(bundle.slots.front()), &last = slot_at(bundle.slots.back());
  if (bundle.single()) {
    bundle.range = {first.offset, first.offset + first.range.size()};
    bundle.counts = first.counts;
    bundle.own = first.range;
    return;
  }
  bundle.range = {first.offset, last.offset + last.stored};
  bundle.counts.assign(first.counts.size(), bundle.range.size());
  bundle.own = {z * bundle.range.size(), (z + 1) * bundle.range.size()};
  for (const int index : bundle.slots)
    slot_at(index).place = static_cast<int64_t>(bundle.counts.size()) * (slot_at(index).offset - bundle.range.begin);
}

int64_t ArenaBundle::numel() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

const at::Tensor& Arena::master() const {
  AXONN_CHECK(master_.defined(), "overlap.arena",
              "the master weights belong to the network's optimizer, whose state() has them, or a network that only "
              "computes has freed them");
  return master_;
}

void Arena::round_master() {
  if (!master().is_same(weights_)) weights_.copy_(master_);
}

at::Tensor Arena::weight(const ArenaSlot& slot) const {
  if (is_scattered()) return scattered_weights_->narrowed({slot.offset, slot.offset + slot.range.size()});
  return weights_.narrow(0, slot.offset, slot.range.size());
}

at::Tensor Arena::gradient(const ArenaSlot& slot) const {
  if (is_scattered()) return scattered_gradients_->narrowed({slot.offset, slot.offset + slot.range.size()});
  return gradients_.narrow(0, slot.offset, slot.range.size());
}

}  // namespace axonn
