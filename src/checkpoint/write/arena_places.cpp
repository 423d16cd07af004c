#include "checkpoint/write/arena_places.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

std::vector<int64_t> places_of(std::span<const CheckpointTensor> tensors) {
  std::vector<int64_t> places;
  for (const CheckpointTensor& tensor : tensors) places.push_back(tensor.cut ? tensor.arena_offset : -1);
  return places;
}

// From rank `from`, on rank 0.
std::vector<int64_t> sent_to_rank_0(Communicator& everyone, std::span<const CheckpointTensor> tensors, int from) {
  std::vector<int64_t> mine = places_of(tensors);
  if (from == 0 || mine.empty()) return mine;
  const at::Tensor list = at::empty({std::ssize(mine)}, at::kLong);
  auto* const numbers = list.mutable_data_ptr<int64_t>();
  if (everyone.rank() == from) {
    std::ranges::copy(mine, numbers);
    everyone.send(list, 0).wait();
  } else {
    everyone.receive(list, from).wait();
  }
  return {numbers, numbers + list.numel()};
}

// UserError if two ranks of a group begin a range of a tensor cut over `axes` at different places.
void check_alike(const ArenaPlaces& places, std::span<const CheckpointTensor> tensors, AxisSet axes, int first,
                 int rank) {
  const auto& a = places.lists[places.list_of[static_cast<size_t>(first)]];
  const auto& b = places.lists[places.list_of[static_cast<size_t>(rank)]];
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].cut && tensors[i].cut->axis_set() == axes)
      AXONN_CHECK(a[i] == b[i], "checkpoint.save", "the cut of ", tensors[i].name, " over ",
                  tensors[i].cut->to_string(), " needs one place in the arena, got ", a[i], " on rank ", first, " and ",
                  b[i], " on rank ", rank);
}

}  // namespace

uint64_t hash_of_places(std::span<const CheckpointTensor> tensors) {
  const auto places = places_of(tensors);
  return disk::xxh64_of({reinterpret_cast<const char*>(places.data()), places.size() * sizeof(int64_t)});
}

ArenaPlaces collect_places(Communicator& everyone, std::span<const CheckpointTensor> tensors,
                           const std::vector<uint64_t>& hashes) {
  ArenaPlaces places;
  std::unordered_map<uint64_t, size_t> known;
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    const auto [found, fresh] = known.try_emplace(hashes[rank], known.size());
    places.list_of.push_back(found->second);
    const auto from = static_cast<int>(rank);
    if (!fresh || (everyone.rank() != 0 && everyone.rank() != from)) continue;
    auto list = sent_to_rank_0(everyone, tensors, from);
    if (everyone.rank() == 0) places.lists.push_back(std::move(list));
  }
  return places;
}

void check_places(const ArenaPlaces& places, const Grid& grid, std::span<const CheckpointTensor> tensors) {
  std::vector<AxisSet> cuts;
  for (const CheckpointTensor& tensor : tensors)
    if (tensor.cut && std::ranges::find(cuts, tensor.cut->axis_set()) == cuts.end())
      cuts.push_back(tensor.cut->axis_set());
  std::set<std::pair<size_t, size_t>> alike;  // lists, for these axes
  for (const AxisSet axes : cuts) {
    alike.clear();
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      Coordinate at = grid.coordinate(rank);
      for (const Axis axis : kAxes)
        if (axes.contains(axis)) at[axis] = 0;
      const int first = grid.rank(at);
      const std::pair lists(places.list_of[static_cast<size_t>(first)], places.list_of[static_cast<size_t>(rank)]);
      if (lists.first != lists.second && alike.insert(lists).second) check_alike(places, tensors, axes, first, rank);
    }
  }
}

}  // namespace axonn
