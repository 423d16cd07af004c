// A rank of a large job resumes from a checkpoint of which only its own file is there.
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "axonn/grid/block_owners.hpp"
#include "checkpoint/checkpoint_ranks.hpp"
#include "checkpoint/shards/held_range.hpp"
#include "checkpoint/stand_ins.hpp"
#include "core/files.hpp"
#include "support/scratch.hpp"
#include "support/forked.hpp"

namespace axonn {
namespace {

using test::OneOfMany, test::Scratch, test::StandIn;
namespace fs = std::filesystem;

constexpr int kLayers = 125;
constexpr char kByte = 0x5A;  // all that the files hold
constexpr int kMostCalls = 2;
constexpr int64_t kMostMemory = 200'000'000;

// A layer of a decoder: matrices, biases along X or Y, norms along Y.
const std::vector<ShardSpec>& layer() {
  static const ShardSpec matrix{{Dim::split(512, Axis::x), Dim::split(512, Axis::y)}, true},
      turned{{Dim::split(512, Axis::y), Dim::split(512, Axis::x)}, true}, along_x{{Dim::split(256, Axis::x)}, false},
      along_y{{Dim::split(128, Axis::y)}, false};
  static const std::vector<ShardSpec> all = {along_y, along_y, matrix, along_x, turned, along_y,
                                             along_y, along_y, matrix, along_x, turned, along_y};
  return all;
}

// The weights of all layers, and their moments, which are cut over the ranks that share an update.
std::vector<CheckpointTensor> tensors(const Grid& grid, int rank) {
  std::vector<CheckpointTensor> all;
  for (const std::string group : {"weights/", "adam.m/", "adam.v/"}) {
    int64_t place = 0;
    for (size_t i = 0; i < kLayers * layer().size(); ++i) {
      CheckpointTensor tensor{
          .name = group + "h." + std::to_string(i / layer().size()) + "." + std::to_string(i % layer().size()),
          .spec = layer()[i % layer().size()],
          .shard = {}};
      if (group != "weights/") {
        tensor.cut = CheckpointCut::over(grid, tensor.spec.replicated_axes().without(Axis::x).without(Axis::y));
        tensor.cut->block = 8;
        tensor.arena_offset = place;
      }
      place += tensor.spec.range_numel(grid.shape(), {}, kRangeAlignment);
      tensor.shard = at::zeros({shard_numel(tensor, grid.shape(), grid.coordinate(rank))});
      all.push_back(std::move(tensor));
    }
  }
  return all;
}

// Ranks with the same zeros in their places write as much.
int rank_like(const Grid& grid, int rank, const std::set<int>& exact) {
  if (exact.contains(rank)) return rank;
  Coordinate at = grid.coordinate(rank);
  for (const Axis axis : kAxes) at[axis] = at[axis] == 0 ? 0 : grid.shape()[axis] - 1;
  return grid.rank(at);
}

class Checkpoint {
 public:
  Checkpoint(const fs::path& directory, const GridShape& shape, const std::set<int>& readers)
      : grid_(shape),
        directory_(directory / "step-000001"),
        all_(grid_, tensors(grid_, 0), 1, [&](int rank) { return rank_like(grid_, rank, readers); }) {
    fs::create_directories(directory_);
    for (const int rank : readers) write(rank);
    text_ = all_.manifest.to_json();
  }

  const Grid& grid() const { return grid_; }
  const fs::path& directory() const { return directory_; }
  const Manifest& manifest() const { return all_.manifest; }
  size_t text_bytes() const { return text_.size(); }

  // As this rank does it, with stand-ins for the others; whether it holds what was saved.
  bool resume(int rank, const std::vector<CheckpointTensor>& mine) const {
    const auto hear = [&](AxisSet axes) { return std::make_unique<OneOfMany>(grid_.group(rank, axes)); };
    std::map<uint8_t, std::unique_ptr<OneOfMany>> groups;
    const auto everyone = hear(AxisSet::all());
    everyone->will_hear(directory_.parent_path().string() + '\n');  // the name that all give
    everyone->will_hear(directory_.string());
    everyone->will_hear(text_);
    const CheckpointReader reader(*everyone, directory_.parent_path());
    reader.load(
        [&](AxisSet axes) -> Communicator& {
          auto& group = groups[axes.bits()];
          if (!group) group = hear(axes);
          return *group;
        },
        grid_.shape(), grid_.coordinate(rank), mine);
    return std::ranges::any_of(mine, [](const CheckpointTensor& tensor) {
      return tensor.shard.numel() > 0 && *static_cast<const char*>(tensor.shard.const_data_ptr()) == kByte;
    });
  }

 private:
  void write(int rank) {
    const auto parts = rank_parts(tensors(grid_, rank), all_.kinds, grid_.shape(), grid_.coordinate(rank), true);
    std::ofstream file(directory_ / test::stand_in_file(static_cast<size_t>(rank), all_.layout.files.size()));
    for (size_t i = 0; i < all_.layout.parts.size(); ++i) {
      const FileLayout::Part& part = all_.layout.parts[i];
      if (part.rank != rank) continue;
      const std::string header =
          part.before + header_entries(parts[part.kind].described, part.data_begin) + part.behind;
      const std::string data(static_cast<size_t>(part.data.size()), kByte);
      file.seekp(part.header.begin) << header;
      file.seekp(part.data.begin) << data;
      all_.manifest.parts[i].xxh64 = disk::xxh64_of(header + data);
    }
  }

  Grid grid_;
  fs::path directory_;
  StandIn all_;
  std::string text_;
};

class CheckpointOfMany : public testing::TestWithParam<const char*> {};

// The last rank, and one that reads what many hold for all of them.
TEST_P(CheckpointOfMany, ARankOpensTwoFilesAtMostAndTakesLittleMemory) {
  Scratch scratch;
  const GridShape shape = parse_grid_shape(GetParam());
  const Grid grid(shape);
  const std::set<int> readers = {grid.rank({.x = 1}), grid.ranks() - 1};
  const Checkpoint checkpoint(scratch.path(), shape, readers);
  RecordProperty("parts", std::to_string(checkpoint.manifest().parts.size()));
  RecordProperty("manifest_bytes", std::to_string(checkpoint.text_bytes()));
  for (const int rank : readers) {
    const auto mine = tensors(grid, rank);
    const test::Costs costs = test::costs_of([&] { return checkpoint.resume(rank, mine); });
    EXPECT_TRUE(costs.succeeded) << "rank " << rank;
    EXPECT_LT(costs.memory, kMostMemory) << "rank " << rank;
    const std::string name = "_of_rank_" + std::to_string(rank);
    RecordProperty("memory" + name, std::to_string(costs.memory));
    RecordProperty("cpu_seconds" + name, std::to_string(costs.cpu_seconds));
    const auto calls = test::calls_on({checkpoint.directory()}, [&] { return checkpoint.resume(rank, mine); });
    if (!calls) GTEST_SKIP() << "this machine does not let a process trace its child";
    RecordProperty("calls" + name, *calls);
    EXPECT_GT(*calls, 0) << "rank " << rank;
    EXPECT_LE(*calls, kMostCalls) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, CheckpointOfMany, testing::Values("8x4x32x4", "8x4x128x4"));

}  // namespace
}  // namespace axonn
