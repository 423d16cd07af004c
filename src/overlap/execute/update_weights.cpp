#include "overlap/execute/update_weights.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace axonn {
using coconet::BufferId;
namespace {

// Parameters are numbered in the order of the forward pass.
int first_slot(const UpdateRegion& region, Range range) {
  int first = std::numeric_limits<int>::max();
  for (const UpdatePiece& piece : region.pieces)
    if (piece.range.begin < range.end && range.begin < piece.range.end) first = std::min(first, piece.slot);
  return first;
}

}  // namespace

UpdateWeights::UpdateWeights(const UpdatedNetwork& network, ArenaMemory& memory, BufferId weights, BufferId master,
                             int64_t segment_bytes)
    : network_(network),
      scheduler_(network.schedule.scheduler()),
      memory_(memory),
      weights_(weights),
      master_(master),
      segment_bytes_(segment_bytes) {
  bind();
}

void UpdateWeights::for_each_own(const Visit& visit) const {
  for (const UpdateRegion& region : memory_.regions())
    for (const Range& range : region.own) memory_.for_each_part(range, [&](Range part) { visit(region, part); });
}

void UpdateWeights::for_each_element(const Visit& visit) const {
  for (const UpdateRegion& region : memory_.regions())
    memory_.for_each_part(region.range, [&](Range part) { visit(region, part); });
}

void UpdateWeights::copy(const ArenaMemory::Buffer& from, const ArenaMemory::Buffer& to, const UpdateRegion& region,
                         Range range) {
  memory_.narrowed(to, region, range).copy_(memory_.narrowed(from, region, range));
}

// The arena holds the weights, and the master weights while they are whole.
void UpdateWeights::bind() {
  Arena& arena = network_.arena;
  if (arena.is_scattered())
    memory_.bind(weights_, arena.scattered_weights());
  else
    memory_.bind(weights_, arena.weights());
  if (master_ == weights_) return;
  const ArenaMemory::Buffer &wide = memory_.buffer(master_), &rounded = memory_.buffer(weights_);
  if (arena.is_scattered())
    return for_each_own([&](const UpdateRegion& region, Range range) { copy(rounded, wide, region, range); });
  if (wide.kind == ArenaMemory::Kind::arena) return memory_.bind(master_, arena.master());
  for_each_own([&](const UpdateRegion& region, Range range) {
    memory_.narrowed(wide, region, range).copy_(arena.master().narrow(0, range.begin, range.size()));
  });
  arena.release_master();
}

bool UpdateWeights::stores_own(BufferId tensor) const { return memory_.buffer(tensor).kind == ArenaMemory::Kind::own; }

void UpdateWeights::for_each_stored(BufferId tensor,
                                    const std::function<void(const at::Tensor&, const at::Tensor&)>& visit) {
  network_.schedule.wait_for_weights();
  const ArenaMemory::Buffer &wide = memory_.buffer(master_), &other = memory_.buffer(tensor);
  const auto both = [&](const UpdateRegion& region, Range range) {
    visit(memory_.narrowed(wide, region, range), memory_.narrowed(other, region, range));
  };
  other.kind == ArenaMemory::Kind::arena ? for_each_element(both) : for_each_own(both);
}

void UpdateWeights::publish(bool of_owners) {
  network_.schedule.wait_for_weights();
  const ArenaMemory::Buffer &wide = memory_.buffer(master_), &rounded = memory_.buffer(weights_);
  const auto round = [&](const UpdateRegion& region, Range range) { copy(wide, rounded, region, range); };
  if (master_ != weights_) of_owners ? for_each_own(round) : for_each_element(round);
  if (!of_owners) return network_.schedule.weights_written();
  std::vector<WrittenRange> ranges;
  for (const UpdateChunk& chunk : chunks()) ranges.push_back(gather(rounded, chunk, {}));
  hand_over(std::move(ranges));
}

std::vector<UpdateChunk> UpdateWeights::chunks() const {
  const auto bytes = static_cast<int64_t>(c10::elementSize(network_.arena.types().gradients));
  std::vector<std::pair<int, UpdateChunk>> ordered;
  for (const UpdateRegion& region : memory_.regions()) {
    if (!region.shared()) continue;
    const int64_t wanted = bucket_elements(scheduler_.policy(), region.range.size(), bytes);
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

WrittenRange UpdateWeights::gather(const ArenaMemory::Buffer& buffer, const UpdateChunk& chunk, Epilogue epilogue) {
  const FusedCollective collective{
      .contributions = {}, .results = memory_.elements(buffer, chunk.range), .epilogue = std::move(epilogue)};
  Request request = network_.communicators[chunk.region->axes].fused(collective, {.priority = queue_of(Traffic::update),
                                                                                  .after = {},
                                                                                  .tag = "weights",
                                                                                  .arena_offset = chunk.range.begin,
                                                                                  .segment_bytes = segment_bytes_});
  return {chunk.range,
          scheduler_.logged(Traffic::update, chunk.region->axes, static_cast<int64_t>(collective.results.nbytes()),
                            "weights", std::move(request))};
}

// Plain modules read scattered weights without asking whether they are there.
void UpdateWeights::hand_over(std::vector<WrittenRange> ranges) {
  network_.schedule.weights_written(std::move(ranges));
  if (network_.arena.is_scattered()) network_.schedule.wait_for_weights();
}

}  // namespace axonn
