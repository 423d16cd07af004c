// All ranks of a grid read a checkpoint together.
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "axonn/comm/communicators.hpp"
#include "checkpoint/checkpoint_ranks.hpp"
#include "checkpoint/random_tensors.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Scratch, test::Tensor, test::bytes_read_so_far, test::state_at;
namespace fs = std::filesystem;

// Loads on all ranks; fails where a rank does not find what it would have saved.
void load_together(const fs::path& run, const Grid& grid, const std::vector<Tensor>& all) {
  run_local(grid.ranks(), [&](Environment& environment) {
    const int rank = environment.rank();
    Communicators communicators(environment, grid, rank, c10::kCPU);
    const CheckpointReader reader(environment.world(), run);
    const auto expected = test::shards(all, grid, rank, /*padding=*/0);
    auto loaded = expected;
    for (CheckpointTensor& tensor : loaded)
      tensor.shard = test::filled(tensor.shard.numel(), tensor.shard.scalar_type(), 0x77);
    reader.load([&](AxisSet axes) -> Communicator& { return communicators.on_cpu(axes); }, grid.shape(),
                grid.coordinate(rank), loaded);
    for (size_t i = 0; i < loaded.size(); ++i)
      EXPECT_TRUE(test::same_bits(loaded[i].shard, expected[i].shard)) << loaded[i].name << " on rank " << rank;
    communicators.close();
  });
}

TEST(SharedReading, AnyGridOrderSpecCutAndPlaceReadsAnyOther) {
  for (unsigned seed = 1; seed <= 15; ++seed) {
    Scratch scratch;
    std::mt19937 random(seed);
    const Grid from = test::random_grid(random), to = test::random_grid(random);
    std::vector<Tensor> all = test::random_tensors(random);
    test::save(scratch.path(), from, state_at(1), all, {.ranks_of_file = static_cast<int>(seed % 3)});
    load_together(scratch.path(), from, all);
    load_together(scratch.path(), to, all);
    for (Tensor& tensor : all) test::cut_at_random(random, tensor);
    load_together(scratch.path(), from, all);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

TEST(SharedReading, FormatsOfOlderVersionsAreReadTogether) {
  const std::vector<Tensor> all = {
      {"weights/vocabulary", {{Dim::padded(4099, Axis::x), Dim::split(3, Axis::y)}, true}, at::kByte}};
  for (const char* grid : {"3x1x2x1", "1x1x1x3", "2x2x1x2"})
    load_together(fs::path(STORED) / "0.2/tiles", Grid(parse_grid_shape(grid)), all);
}

// A weight of some MB, its moments, a norm that all ranks hold, and a bias.
std::vector<Tensor> layer(AxisSet cut) {
  const ShardSpec weight{{Dim::split(1024, Axis::x), Dim::split(1024, Axis::y)}, true};
  return {{"weights/w", weight},
          {"weights/b", {{Dim::split(1024, Axis::x)}, false}},
          {"weights/norm", {{Dim::whole(1024)}, false}},
          {"adam.m/w", weight, at::kFloat, cut, BlockOwners::kBlock, 1},
          {"adam.v/w", weight, at::kFloat, cut, BlockOwners::kBlock, 1}};
}

int64_t bytes_in(const fs::path& run) {
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(run))
    if (entry.path().extension() == ".safetensors") bytes += static_cast<int64_t>(entry.file_size());
  return bytes;
}

// The ranks are threads of this process, so its counter sees all of them.
TEST(SharedReading, EachByteIsReadOnceByTheRanksThatHoldTheSame) {
  struct Case {
    const char *from, *to;
    AxisSet cut;
    double times;  // each byte is read
  };
  for (const auto& [from, to, cut, times] :
       {Case{"2x2x1x4", "2x2x1x4", {}, 1}, Case{"2x1x2x4", "2x1x2x4", Axis::data, 1},
        Case{"1x1x1x1", "1x1x1x8", Axis::data, 1}, Case{"2x1x2x2", "1x1x1x8", Axis::data, 1},
        Case{"1x1x2x4", "1x1x2x4", {}, 1},
        // Two ranks along Y need half of each file, whose checksum needs all of it.
        Case{"1x1x1x1", "1x2x1x4", {}, 2}}) {
    Scratch scratch;
    test::save(scratch.path(), Grid(parse_grid_shape(from)), state_at(1), layer(cut));
    const int64_t before = bytes_read_so_far(), bytes = bytes_in(scratch.path());
    load_together(scratch.path(), Grid(parse_grid_shape(to)), layer(cut));
    const double read = static_cast<double>(bytes_read_so_far() - before) / static_cast<double>(bytes);
    EXPECT_NEAR(read, times, 0.05) << from << " on " << to;
  }
}

TEST(SharedReading, WhatOneRankFindsBrokenIsTheErrorOfAll) {
  Scratch scratch;
  const Grid grid({.x = 2, .data = 2});
  for (const int64_t step : {100, 200}) test::save(scratch.path(), grid, state_at(step), layer(Axis::data));
  const fs::path file = scratch / "step-000200/x1-y0-z0-d1.safetensors";
  std::string content = test::read(file);
  content.back() = static_cast<char>(content.back() ^ 1);
  std::ofstream(file, std::ios::binary) << content;
  std::atomic<int> refused = 0;
  run_local(grid.ranks(), [&](Environment& environment) {
    Communicators communicators(environment, grid, environment.rank(), c10::kCPU);
    const CheckpointReader reader(environment.world(), scratch.path());
    const auto loaded = test::shards(layer(Axis::data), grid, environment.rank(), 0);
    EXPECT_USER_ERROR(reader.load([&](AxisSet axes) -> Communicator& { return communicators.on_cpu(axes); },
                                  grid.shape(), grid.coordinate(environment.rank()), loaded),
                      file.string() + " is broken: its checksum is ",
                      "the newest older checkpoint that is whole is " + (scratch / "step-000100").string());
    ++refused;
    communicators.close();
  });
  EXPECT_EQ(refused, grid.ranks());
}

TEST(SharedReading, OneRankThatReadsForOthersFailsForAll) {
  Scratch scratch;
  const Grid grid({.data = 3});
  test::save(scratch.path(), grid, state_at(100), layer({}));
  const fs::path file = scratch / "step-000100/x0-y0-z0.safetensors";
  std::string content = test::read(file);
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 1);
  std::ofstream(file, std::ios::binary) << content;
  EXPECT_USER_ERROR(load_together(scratch.path(), grid, layer({})), file.string() + " is broken: its checksum is ");
}

TEST(SharedReading, OnlyRank0LooksForTheCheckpoint) {
  run_local(3, [&](Environment& environment) {
    EXPECT_USER_ERROR(CheckpointReader(environment.world(), "no/such/run"), "there is no checkpoint no/such/run");
  });
}

}  // namespace
}  // namespace axonn
