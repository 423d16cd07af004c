#include "checkpoint/write/rank_parts.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "axonn/core/error.hpp"
#include "checkpoint/shards/saved_range.hpp"

namespace axonn {
namespace {

void describe(RankPart& part, std::span<const CheckpointTensor> tensors, const std::string& before, AxisSet kind,
              bool padded) {
  if (part.saved.empty()) return;
  std::ranges::stable_sort(part.saved, std::greater(),
                           [&](const RankPart::Saved& one) { return tensors[one.tensor].shard.element_size(); });
  for (const RankPart::Saved& one : part.saved)
    part.described.push_back(
        {before + tensors[one.tensor].name, tensors[one.tensor].shard.scalar_type(), elements_of(one.in_shard)});
  part.padding = padded ? padding_after(bytes_of(part.described)) : 0;
  if (part.padding > 0)
    part.described.push_back({before + "padding/" + kind.to_string(), c10::ScalarType::Byte, part.padding});
}

}  // namespace

std::string place_name(const Coordinate& at) {
  const std::string data = at.data == 0 ? "" : detail::concatenate("-d", at.data);
  return detail::concatenate("x", at.x, "-y", at.y, "-z", at.z, data);
}

std::vector<AxisSet> kinds_of(std::span<const CheckpointTensor> tensors) {
  std::vector<AxisSet> kinds;
  for (const CheckpointTensor& tensor : tensors)
    if (std::ranges::find(kinds, tensor.replicated_axes()) == kinds.end()) kinds.push_back(tensor.replicated_axes());
  std::ranges::sort(kinds, {}, [](AxisSet kind) { return kind.bits(); });
  return kinds;
}

std::vector<RankPart> rank_parts(std::span<const CheckpointTensor> tensors, const std::vector<AxisSet>& kinds,
                                 const GridShape& shape, const Coordinate& at, bool shares_file) {
  std::vector<RankPart> parts(kinds.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    auto saved = saved_by(tensors[i], shape, at);
    if (!saved || saved->in_shard.empty()) continue;
    const auto kind = std::ranges::find(kinds, tensors[i].replicated_axes()) - kinds.begin();
    parts[static_cast<size_t>(kind)].saved.push_back({i, std::move(saved->in_shard)});
  }
  size_t last = 0;
  for (size_t kind = 0; kind < parts.size(); ++kind)
    if (!parts[kind].saved.empty()) last = kind;
  const std::string before = shares_file ? place_name(at) + "/" : "";
  for (size_t kind = 0; kind < parts.size(); ++kind)
    describe(parts[kind], tensors, before, kinds[kind], /*padded=*/shares_file || kind < last);
  return parts;
}

}  // namespace axonn
