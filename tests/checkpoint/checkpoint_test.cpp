#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/checkpoint/history.hpp"

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <thread>

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "axonn/checkpoint/safetensors.hpp"
#include "checkpoint/checkpoint_ranks.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Scratch, test::Tensor, test::bytes_read_so_far, test::same_bits, test::state_at;
namespace fs = std::filesystem;

Segment split(int64_t size, Axis axis) { return {.size = size, .axis = axis}; }

// Uneven, segmented, padded in front and at the end, replicated over Z, over Y and Z, over all
// axes; with several types.
const std::vector<Tensor>& tensors() {
  static const std::vector<Tensor> all = {
      {"weights/qkv",
       {{Dim{{split(10, Axis::x), split(4, Axis::x), split(7, Axis::x)}}, Dim::split(13, Axis::y)}, true}},
      {"weights/mixed",
       {{Dim{{split(5, Axis::y), {.size = 3, .axis = Axis::y, .tile = 1}, split(8, Axis::y)}}, Dim::split(3, Axis::x),
         Dim::whole(2)},
        true}},
      {"weights/vocabulary", {{Dim::padded(29, Axis::x), Dim::split(6, Axis::y)}, true}},
      {"weights/padded_behind", {{Dim::split(5, Axis::y), Dim::padded(10, Axis::x)}, true}, at::kBFloat16},
      {"weights/bias", {{Dim::split(9, Axis::x)}, false}},
      {"weights/norm", {{Dim::whole(5)}, false}, at::kDouble},
      {"weights/tiles", {{Dim{{{.size = 29, .axis = Axis::x, .tile = 4}}}, Dim::split(6, Axis::y)}, true}},
      {"adam.m/qkv",
       {{Dim{{split(10, Axis::x), split(4, Axis::x), split(7, Axis::x)}}, Dim::split(13, Axis::y)}, true},
       at::kDouble},
  };
  return all;
}

std::vector<CheckpointTensor> shards(const std::vector<Tensor>& all, const GridShape& shape, const Coordinate& at,
                                     int padding) {
  const Grid grid(shape);
  return test::shards(all, grid, grid.rank(at), padding);
}

void save(const fs::path& directory, const GridShape& shape, const CheckpointState& state, int keep = 2,
          const std::vector<Tensor>& all = tensors(), int kill = 0) {
  test::save(directory, Grid(shape), state, all, {.keep = keep, .kill = kill});
}

CheckpointWriter writer_in(const fs::path& directory, int keep = 2) {
  return {Grid({}), test::alone(), {.directory = directory, .keep = keep}};
}

void expect_loads(const CheckpointReader& reader, const GridShape& shape) {
  const Grid grid(shape);
  for (int rank = 0; rank < grid.ranks(); ++rank)
    EXPECT_TRUE(test::loads(reader, grid, rank, tensors()))
        << grid.coordinate(rank).to_string() << " of " << shape.to_string();
}

std::vector<int64_t> steps_in(const fs::path& directory) {
  std::vector<int64_t> steps;
  for (const auto& step : checkpoints_in(directory)) steps.push_back(step.step);
  return steps;
}

class AnyGrid : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(AnyGrid, ReadsBitForBitWhatAnotherWrote) {
  Scratch scratch;
  save(scratch.path(), parse_grid_shape(GetParam().first), state_at(500));
  const CheckpointReader reader(scratch.path());
  reader.verify();
  EXPECT_EQ(reader.grid(), parse_grid_shape(GetParam().first));
  expect_loads(reader, parse_grid_shape(GetParam().second));
}

TEST_P(AnyGrid, ReadsWhatRanksWroteToOneFile) {
  for (const int ranks : {2, 3, 100}) {
    Scratch scratch;
    const Grid grid(parse_grid_shape(GetParam().first));
    test::save(scratch.path(), grid, state_at(500), tensors(), {.ranks_of_file = ranks});
    const CheckpointReader reader(scratch.path());
    reader.verify();
    expect_loads(reader, parse_grid_shape(GetParam().second));
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoint, AnyGrid,
                         testing::Values(std::pair("2x2x2x1", "2x2x2x1"), std::pair("2x2x2x1", "1x1x1x1"),
                                         std::pair("2x2x2x1", "1x2x1x1"), std::pair("2x2x2x1", "3x1x2x1"),
                                         std::pair("3x2x1x2", "2x1x5x1"), std::pair("1x1x1x1", "2x2x3x2"),
                                         std::pair("1x1x3x1", "1x1x4x1"), std::pair("1x3x2x2", "1x3x2x1"),
                                         std::pair("3x1x1x1", "3x1x1x2")));

// Another rule for the padding of the same tensor: axonn had none in tiles before format 3.
TEST(Checkpoint, ReadsTensorsThatWerePaddedInAnotherWay) {
  const auto padded_to = [](int64_t tile) {
    const Segment rows{.size = 4099, .axis = Axis::x, .tile = tile};
    return std::vector<Tensor>{{"weights/vocabulary", {{Dim{{rows}}, Dim::split(6, Axis::y)}, true}}};
  };
  EXPECT_EQ(padded_to(128)[0].spec.dims[0], Dim::padded(4099, Axis::x));
  for (const auto& [from, to] : {std::pair(1, 128), std::pair(128, 1), std::pair(0, 128)})
    for (const GridShape& wrote : {GridShape{}, GridShape{.x = 3, .z = 2}, GridShape{.x = 4, .y = 2}}) {
      Scratch scratch;
      save(scratch.path(), wrote, state_at(1), 2, padded_to(from));
      const std::string manifest = test::read(scratch / "step-000001/manifest.json");
      EXPECT_NE(manifest.find("\"format\": 4"), std::string::npos);
      EXPECT_EQ(manifest.find("\"tile\":128") != std::string::npos, from > 1);
      const CheckpointReader reader(scratch.path());
      for (const GridShape& reads : {GridShape{}, GridShape{.x = 2}, GridShape{.x = 3, .z = 2}}) {
        const Grid grid(reads);
        for (int rank = 0; rank < grid.ranks(); ++rank)
          EXPECT_TRUE(test::loads(reader, grid, rank, padded_to(to)))
              << from << " on " << wrote.to_string() << ", " << to << " on " << reads.to_string();
      }
    }
}

// Any reader of safetensors takes the files, and finds each tensor aligned.
TEST(Checkpoint, EveryElementIsStoredOnceAndNoPaddingOfItsTensor) {
  Scratch scratch;
  save(scratch.path(), {.x = 2, .y = 2, .z = 2, .data = 2}, state_at(1));
  std::map<std::string, int64_t> stored;
  for (const auto& entry : fs::directory_iterator(scratch / "step-000001")) {
    if (entry.path().extension() != ".safetensors") continue;
    const safetensors::File file(entry.path());
    EXPECT_EQ(file.metadata().at("format"), "axonn checkpoint 4");
    for (const auto& tensor : file.entries()) {
      EXPECT_EQ(file.begin_of(tensor) % static_cast<int64_t>(c10::elementSize(tensor.dtype)), 0) << tensor.name;
      if (!tensor.name.starts_with("padding/")) stored[tensor.name] += tensor.shape.at(0);
    }
  }
  for (const Tensor& tensor : tensors()) EXPECT_EQ(stored[tensor.name], tensor.spec.global_numel()) << tensor.name;
  EXPECT_EQ(stored.size(), tensors().size());
}

// The file is larger than what is read at once, and rows end within that.
TEST(Checkpoint, AFileIsReadOnceForItsChecksumAndItsTensors) {
  const std::vector<Tensor> large = {{"weights/large", {{Dim::whole(1031), Dim::split(997, Axis::y)}, true}},
                                     {"weights/small", {{Dim::whole(5)}, false}}};
  Scratch scratch;
  save(scratch.path(), parse_grid_shape("1x2x1x1"), state_at(500), 2, large);
  int64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(scratch.path()))
    if (entry.path().extension() == ".safetensors") bytes += static_cast<int64_t>(entry.file_size());
  EXPECT_GT(bytes, 3 << 20);
  const CheckpointReader reader(scratch.path());
  const Grid one(parse_grid_shape("1x1x1x1"));
  const int64_t before = bytes_read_so_far();
  EXPECT_TRUE(test::loads(reader, one, 0, large));
  EXPECT_LT(bytes_read_so_far() - before, bytes + bytes / 10);
  // `reader` knows by now that the files are right.
  const CheckpointReader fresh(scratch.path());
  EXPECT_TRUE(same_bits(reader.read_whole(reader.tensors()[0]), fresh.read_whole(fresh.tensors()[0])));
}

TEST(Checkpoint, TheStateReadsBack) {
  Scratch scratch;
  const CheckpointState state{.run = "a run",
                              .step = 7,
                              .seed = ~uint64_t{0},
                              .samples = int64_t{1} << 60,
                              .data_fingerprint = 0xFEDCBA9876543210u,
                              .configuration = R"({"model":{"rate":0.30000000000000004}})",
                              .tokenizer = R"({"kind":"bytes"})",
                              .loss_scale = LossScale::State{.value = 0.5, .good = 3, .skipped = 4, .in_a_row = 1},
                              .choices = {{"gemm", "onednn"}}};
  save(scratch.path(), {.x = 2}, state);
  const CheckpointReader reader(scratch / "step-000007");
  EXPECT_EQ(reader.directory(), scratch / "step-000007");
  EXPECT_EQ(reader.state().run, state.run);
  EXPECT_EQ(reader.state().step, state.step);
  EXPECT_EQ(reader.state().seed, state.seed);
  EXPECT_EQ(reader.state().samples, state.samples);
  EXPECT_EQ(reader.state().data_fingerprint, state.data_fingerprint);
  EXPECT_EQ(reader.state().configuration, state.configuration);
  EXPECT_EQ(reader.state().tokenizer, state.tokenizer);
  EXPECT_EQ(reader.state().choices, state.choices);
  EXPECT_EQ(reader.state().loss_scale, state.loss_scale);
  ASSERT_EQ(reader.tensors().size(), tensors().size());
  for (size_t i = 0; i < tensors().size(); ++i) {
    EXPECT_EQ(reader.tensors()[i].name, tensors()[i].name);
    EXPECT_EQ(reader.tensors()[i].dtype, tensors()[i].dtype);
    EXPECT_EQ(reader.tensors()[i].spec, tensors()[i].spec);
  }
}

TEST(Checkpoint, EveryTruncationAndEveryFlippedBitIsAnError) {
  Scratch scratch;
  const std::vector<Tensor> small = {tensors()[4], tensors()[5]};
  save(scratch.path(), {.x = 2}, state_at(1), 2, small);
  const auto refused = [&](const fs::path& file, const std::string& content) {
    scratch.file(("step-000001" / file.filename()).native(), content);
    return test::user_error([&] { CheckpointReader(scratch / "step-000001").verify(); });
  };
  int files = 0;
  for (const auto& entry : fs::directory_iterator(scratch / "step-000001")) {
    ++files;
    const std::string name = entry.path().filename().string(), whole = test::read(entry.path());
    for (size_t size = 0; size < whole.size(); ++size)
      ASSERT_NE(refused(entry.path(), whole.substr(0, size)).find(name), std::string::npos) << size;
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
      ASSERT_NE(refused(entry.path(), flipped).find(name), std::string::npos) << at;
    }
    scratch.file("step-000001/" + name, whole);
  }
  EXPECT_EQ(files, 3);
  CheckpointReader(scratch.path()).verify();
}

TEST(Checkpoint, LoadingChecksTheFilesItReads) {
  Scratch scratch;
  const std::vector<Tensor> small = {tensors()[4]};
  save(scratch.path(), {.x = 1}, state_at(1), 2, small);
  const fs::path file = scratch / "step-000001/x0-y0-z0.safetensors";
  std::string content = test::read(file);
  content.back() = static_cast<char>(content.back() ^ 1);
  scratch.file("step-000001/x0-y0-z0.safetensors", content);
  const CheckpointReader reader(scratch.path());
  EXPECT_USER_ERROR(reader.load({}, {}, shards(small, {}, {}, 0)), file.string() + " is broken: its checksum is ",
                    "the manifest says ", "there is no older checkpoint that is whole");
}

TEST(Checkpoint, WhenTheNewestIsBrokenTheErrorNamesTheOlderOneThatIsWhole) {
  Scratch scratch;
  for (const int64_t step : {100, 200, 300}) save(scratch.path(), {.x = 2}, state_at(step), 3);
  fs::remove(scratch / "step-000300/x1-y0-z0.safetensors");
  EXPECT_USER_ERROR(CheckpointReader(scratch.path()), "step-000300/x1-y0-z0.safetensors is missing",
                    "the newest older checkpoint that is whole is " + (scratch / "step-000200").string());
  std::string content = test::read(scratch / "step-000200/x0-y0-z0.safetensors");
  content.back() = static_cast<char>(content.back() ^ 1);
  scratch.file("step-000200/x0-y0-z0.safetensors", content);
  EXPECT_USER_ERROR(CheckpointReader(scratch.path()), (scratch / "step-000100").string());
  fs::remove(scratch / "step-000100/manifest.json");
  EXPECT_USER_ERROR(CheckpointReader(scratch.path()), "there is no older checkpoint that is whole");
}

TEST(Checkpoint, ARunThatDiesWhileSavingLeavesTheCheckpointBeforeIt) {
  Scratch scratch;
  save(scratch.path(), {.x = 2}, state_at(100));
  for (const int kill : {1, 2}) {
    EXPECT_THROW(save(scratch.path(), {.x = 2}, state_at(200), 1, tensors(), kill), std::runtime_error);
    EXPECT_TRUE(fs::exists(scratch / "step-000200.partial"));
    const CheckpointReader reader(scratch.path());
    EXPECT_EQ(reader.state().step, 100);
    expect_loads(reader, {.x = 2});
  }
  save(scratch.path(), {.x = 2}, state_at(200));
  EXPECT_EQ(CheckpointReader(scratch.path()).state().step, 200);
  EXPECT_FALSE(fs::exists(scratch / "step-000200.partial"));
}

constexpr int kNoTracing = 77;

// A process that saves this step and is killed at system call number `call`. Returns its exit
// status, or nullopt if it was killed.
std::optional<int> save_until(const fs::path& directory, int64_t step, int call) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kNoTracing);
    const auto made = shards(tensors(), {}, {}, 0);
    ::raise(SIGSTOP);
    writer_in(directory, 1).save(state_at(step), made);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  for (int stops = 0; stops < 2 * call && WIFSTOPPED(status); ++stops) {  // before and after each call
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  if (!WIFSTOPPED(status)) return WEXITSTATUS(status);
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return std::nullopt;
}

// Kills the save of `step` at each of its system calls in turn. Step 1 is complete before.
void kill_everywhere(int64_t step) {
  for (int call = 1;; ++call) {
    Scratch scratch;
    save(scratch.path(), {}, state_at(1), 1);
    const auto ended = save_until(scratch.path(), step, call);
    if (ended == kNoTracing) GTEST_SKIP() << "this machine does not let a process trace its child";
    const CheckpointReader reader(scratch.path());
    reader.verify();
    expect_loads(reader, {});
    ASSERT_FALSE(testing::Test::HasFailure()) << "killed at system call " << call;
    if (ended) {
      EXPECT_EQ(*ended, 0);
      EXPECT_EQ(steps_in(scratch.path()), (std::vector<int64_t>{step}));
      EXPECT_GT(call, 20);
      return;
    }
    save(scratch.path(), {}, state_at(step), 1);  // ignores and removes files left by the kill
    EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 1) << "killed at system call " << call;
  }
}

TEST(Checkpoint, AKillAtAnySystemCallOfASaveLeavesAWholeCheckpoint) { kill_everywhere(2); }

TEST(Checkpoint, AKillAtAnySystemCallOfAReplacementLeavesAWholeCheckpoint) { kill_everywhere(1); }

TEST(Checkpoint, OldOnesGoOnlyAfterTheNewOneIsWhole) {
  Scratch scratch;
  save(scratch.path(), {}, state_at(50, "another run"));
  for (const int64_t step : {100, 200, 300, 400}) save(scratch.path(), {}, state_at(step), 2);
  EXPECT_EQ(steps_in(scratch.path()), (std::vector<int64_t>{50, 300, 400}));
  save(scratch.path(), {}, state_at(350), 1);  // resumed from 300: newer checkpoints stay
  EXPECT_EQ(steps_in(scratch.path()), (std::vector<int64_t>{50, 350, 400}));
}

TEST(Checkpoint, AnotherRunsCheckpointIsNotOverwritten) {
  Scratch scratch;
  save(scratch.path(), {.x = 2}, state_at(100, "first"));
  EXPECT_USER_ERROR(save(scratch.path(), {.x = 2}, state_at(100, "second")),
                    "step-000100 is a whole checkpoint of another run and is not overwritten");
  EXPECT_EQ(CheckpointReader(scratch.path()).state().run, "first");
  save(scratch.path(), {.x = 2, .y = 2}, state_at(100, "first"));
  const CheckpointReader reader(scratch.path());
  EXPECT_EQ(reader.grid(), (GridShape{.x = 2, .y = 2}));
  expect_loads(reader, {.x = 2});
}

TEST(Checkpoint, WhatIsBeingReplacedStandsInForItsSuccessor) {
  Scratch scratch;
  save(scratch.path(), {}, state_at(100));
  fs::rename(scratch / "step-000100", scratch / "step-000100.old");
  EXPECT_EQ(CheckpointReader(scratch.path()).state().step, 100);
  save(scratch.path(), {}, state_at(100));
  EXPECT_TRUE(fs::exists(scratch / "step-000100"));
  EXPECT_FALSE(fs::exists(scratch / "step-000100.old"));
}

TEST(Checkpoint, TensorsThatDisagreeAreNamedWithBothShapes) {
  Scratch scratch;
  save(scratch.path(), {}, state_at(1));
  const CheckpointReader reader(scratch.path());
  const auto load = [&](const std::function<void(std::vector<Tensor>&)>& change) {
    std::vector<Tensor> asked = tensors();
    change(asked);
    return test::user_error([&] { reader.load({}, {}, shards(asked, {}, {}, 0)); });
  };
  const auto expect_in = [](const std::string& sentence, const std::string& part) {
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  };
  expect_in(load([](auto& asked) { asked[4].spec.dims = {Dim::whole(8)}; }), "tensor weights/bias has shape [9] in ");
  expect_in(load([](auto& asked) { asked[4].spec.dims = {Dim::whole(8)}; }), "the model has [8]");
  expect_in(load([](auto& asked) { asked.push_back({"weights/more", {{Dim::whole(3)}, false}}); }),
            "has no tensor weights/more ([3] is needed)");
  expect_in(load([](auto& asked) { asked.erase(asked.begin() + 4); }),
            "has tensor weights/bias of shape [9], which the model has not");
  expect_in(load([](auto& asked) { asked[4].dtype = at::kDouble; }), "tensor weights/bias is F32 in ");
  expect_in(load([](auto& asked) { asked.push_back(asked[4]); }), "tensor weights/bias is asked for twice");
}

TEST(Checkpoint, ShardsMayComeWithoutPadding) {
  Scratch scratch;
  auto saved = shards(tensors(), {}, {}, 0), loaded = saved;
  saved[4].shard = test::filled(9, at::kFloat, 0x5A);
  loaded[4].shard = test::filled(9, at::kFloat, 0);
  writer_in(scratch.path()).save(state_at(1), saved);
  CheckpointReader(scratch.path()).load({}, {}, loaded);
  EXPECT_TRUE(same_bits(loaded[4].shard, saved[4].shard));
}

TEST(Checkpoint, OneGroupCanBeLoadedAlone) {
  Scratch scratch;
  save(scratch.path(), {.y = 2}, state_at(1));
  const std::vector<Tensor> weights(tensors().begin(), tensors().end() - 1);
  std::vector<CheckpointTensor> loaded;
  for (const Tensor& tensor : weights) {
    const int64_t numel = tensor.spec.range_numel({}, {}, kRangeAlignment);
    loaded.push_back({tensor.name, tensor.spec, test::filled(numel, tensor.dtype, 0x77)});
  }
  CheckpointReader(scratch.path()).load({}, {}, loaded);
  EXPECT_TRUE(same_bits(loaded[0].shard, shards(weights, {}, {}, 0)[0].shard));
}

TEST(Checkpoint, WrongShardsAndNamesAreRefusedBeforeAnythingIsWritten) {
  Scratch scratch;
  const CheckpointWriter writer = writer_in(scratch.path());
  auto wrong = shards(tensors(), {}, {}, 0);
  wrong[4].shard = at::empty({10}, at::kFloat);
  EXPECT_USER_ERROR(writer.save(state_at(1), wrong),
                    "the shard of weights/bias must be one contiguous range of 32 elements", "got 10 elements");
  auto twice = shards(tensors(), {}, {}, 0);
  twice.push_back(twice[0]);
  EXPECT_USER_ERROR(writer.save(state_at(1), twice), "'weights/qkv' is empty or used twice");
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  EXPECT_USER_ERROR(writer_in(scratch.path(), 0), "at least 1 checkpoint");
  EXPECT_USER_ERROR(CheckpointWriter(Grid({.x = 2}), test::alone(), {.directory = scratch.path()}),
                    "the grid has 2 ranks, the communicator 1");
}

// Each rank takes another directory for the run's.
TEST(Checkpoint, ADirectoryThatNotEveryRankSeesIsAnError) {
  Scratch scratch;
  const auto save_apart = [&] {
    run_local(2, [&](Environment& environment) {
      const Grid grid({.x = 2});
      const fs::path mine = scratch / std::to_string(environment.rank());
      CheckpointWriter(grid, environment.world(), {.directory = mine})
          .save(state_at(1), test::shards(tensors(), grid, environment.rank(), 0));
    });
  };
  EXPECT_USER_ERROR(save_apart(), "1/step-000001.partial is not there on rank 1", "every node sees");
  EXPECT_TRUE(steps_in(scratch / "0").empty());
}

// As on a network file system, which shows a folder some seconds after another host made it.
TEST(Checkpoint, AFolderThatIsSeenLateIsWaitedFor) {
  Scratch scratch;
  std::jthread late;
  run_local(2, [&](Environment& environment) {
    const Grid grid({.x = 2});
    const int rank = environment.rank();
    fs::path mine = scratch / "run";
    if (rank == 1) {
      mine = scratch / "late";
      late = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        fs::create_directory_symlink(scratch / "run", scratch / "late");
      });
    }
    CheckpointWriter(grid, environment.world(), {.directory = mine})
        .save(state_at(1), test::shards(tensors(), grid, rank, 0));
  });
  expect_loads(CheckpointReader(scratch / "run"), {.x = 2});
}

TEST(Checkpoint, WhatIsNoCheckpointIsRefused) {
  Scratch scratch;
  EXPECT_USER_ERROR(CheckpointReader(scratch / "none"), "no such directory");
  EXPECT_USER_ERROR(CheckpointReader(scratch.path()), "there is no checkpoint in", "step-000500 or the like");
  scratch.file("step-000001/manifest.json", R"({"format": 5, "axonn": "9.1"})");
  EXPECT_USER_ERROR(CheckpointReader(scratch.path()), "its format is 5, written by a newer axonn (9.1)",
                    "reads formats up to 4");
  for (const std::string format : {"0", "-1", "1.5", "null", "\"1\""}) {
    scratch.file("step-000001/manifest.json", R"({"format": )" + format + "}");
    EXPECT_USER_ERROR(CheckpointReader(scratch.path()), "its format is " + format + ", this axonn", "formats 1 to 4");
  }
}

}  // namespace
}  // namespace axonn
