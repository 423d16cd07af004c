#include "scale_tensors.hpp"

#include <ATen/ops/empty.h>

#include "axonn/layers/context.hpp"
#include "axonn/model/decoder/model.hpp"
#include "axonn/network/decoder/decoder_presets.hpp"
#include "train/arena_tensors.hpp"

namespace axonn::bench {

PlannedTensors::PlannedTensors(const std::string& preset, const GridShape& shape) : grid_(shape) {
  Context context = Context::plan(shape);
  Decoder network(context, {.shape = find_decoder_preset(preset).shape});
  const Parameters parameters = context.materialize(network, 1);
  for (const ArenaSlot& slot : parameters.arena().slots())
    entries_.push_back({.name = slot.name, .spec = slot.spec, .decay = slot.decay, .bundle = slot.bundle});
}

std::vector<CheckpointTensor> PlannedTensors::of(int rank) const {
  const Arena arena(entries_, grid_, rank, {}, c10::kCPU, ArenaBuffers::none);
  const auto sized = [](int64_t elements) { return at::empty({elements}, c10::Device(c10::kMeta)); };
  int64_t own = 0;
  for (const OwnedRegion& region : arena.regions()) own += region.own_count(region.range);
  return arena_tensors(arena, grid_,
                       {{.name = "weights", .tensor = sized(arena.size())},
                        {.name = "adam.m", .tensor = sized(own), .own = true},
                        {.name = "adam.v", .tensor = sized(own), .own = true}});
}

}  // namespace axonn::bench
