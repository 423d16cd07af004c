#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "axonn/comm/communicator.hpp"
#include "axonn/core/error.hpp"
#include "checkpoint/manifest/manifest.hpp"
#include "checkpoint/write/file_layout.hpp"
#include "checkpoint/write/rank_parts.hpp"

// Checkpoints of large jobs, without most of their ranks.
namespace axonn::test {

inline RankShare share_of(const std::vector<RankPart>& parts) {
  RankShare share;
  for (const RankPart& part : parts)
    share.parts.push_back({std::ssize(header_entries(part.described, 0)), bytes_of(part.described)});
  return share;
}

inline std::string stand_in_file(size_t number, size_t files) {
  return "state-" + std::to_string(number + 1) + "-of-" + std::to_string(files) + ".safetensors";
}

// All that the ranks of a grid save together, `ranks_of_file` in one file, before checksums are
// known. All have the places in the arena that `tensors`, one rank's, have. `like` gives a rank
// with the same share.
struct StandIn {
  StandIn(
      const Grid& grid, std::span<const CheckpointTensor> tensors, int ranks_of_file,
      const std::function<int(int)>& like = [](int rank) { return rank; })
      : kinds(kinds_of(tensors)) {
    std::vector<RankShare> shares;
    std::map<int, RankShare> known;
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      const auto [place, fresh] = known.try_emplace(like(rank));
      if (fresh)
        place->second = share_of(rank_parts(tensors, kinds, grid.shape(), grid.coordinate(place->first), true));
      shares.push_back(place->second);
      shares.back().file = rank / ranks_of_file;
    }
    layout = layout_of(shares);
    manifest.state = {.run = "stand-in", .step = 1};
    manifest.grid = grid.shape();
    auto& places = manifest.places.emplace_back();
    for (const CheckpointTensor& tensor : tensors) {
      manifest.tensors.push_back({tensor.name, tensor.shard.scalar_type(), tensor.spec, tensor.cut});
      places.push_back(tensor.cut ? tensor.arena_offset : -1);
    }
    for (size_t i = 0; i < layout.files.size(); ++i)
      manifest.files.push_back({stand_in_file(i, layout.files.size()), layout.files[i].bytes});
    for (const FileLayout::Part& part : layout.parts)
      manifest.parts.push_back({.file = part.file,
                                .at = grid.coordinate(part.rank),
                                .replicated = kinds[part.kind],
                                .header = part.header,
                                .data = part.data});
  }

  std::vector<AxisSet> kinds;
  FileLayout layout;
  Manifest manifest;
};

// A rank of a group whose others do as it does. It hears what it is given, then zeros.
class OneOfMany final : public Communicator {
 public:
  explicit OneOfMany(Group group) : Communicator(std::move(group)) {}

  // As broadcast_text() of another rank sends it.
  void will_hear(const std::string& text) {
    const auto size = static_cast<int64_t>(text.size());
    heard_.emplace(reinterpret_cast<const char*>(&size), sizeof size);
    heard_.push(text);
  }

  std::string_view backend() const override { return "stand-in"; }
  Request broadcast(const at::Tensor& data, int root, const CollectiveOptions&) override {
    if (root == rank()) return {};
    std::memset(data.mutable_data_ptr(), 0, data.nbytes());
    if (heard_.empty()) return {};
    std::memcpy(data.mutable_data_ptr(), heard_.front().data(), std::min(data.nbytes(), heard_.front().size()));
    heard_.pop();
    return {};
  }
  Request all_reduce(const at::Tensor&, ReduceOp, const CollectiveOptions&) override { return {}; }
  Request reduce_scatter(const at::Tensor&, const at::Tensor&, std::span<const int64_t>, ReduceOp,
                         const CollectiveOptions&) override {
    throw InternalError("test", "no stand-in");
  }
  Request all_gather(const at::Tensor&, const at::Tensor&, std::span<const int64_t>,
                     const CollectiveOptions&) override {
    throw InternalError("test", "no stand-in");
  }
  Request fused(const FusedCollective&, const CollectiveOptions&) override {
    throw InternalError("test", "no stand-in");
  }
  Request reduce(const at::Tensor&, int, ReduceOp, const CollectiveOptions&) override {
    throw InternalError("test", "no stand-in");
  }
  Request send(const at::Tensor&, int, const CollectiveOptions&) override {
    throw InternalError("test", "no stand-in");
  }
  Request receive(const at::Tensor&, int, const CollectiveOptions&) override {
    throw InternalError("test", "no stand-in");
  }
  Request barrier(const CollectiveOptions&) override { return {}; }
  Counters counters() const override { return {}; }

 private:
  std::queue<std::string> heard_;
};

}  // namespace axonn::test
