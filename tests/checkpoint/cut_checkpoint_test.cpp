// Tensors that are cut over replicas.
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/checkpoint/history.hpp"
#include "axonn/checkpoint/safetensors.hpp"
#include "axonn/overlap/step/arena.hpp"
#include "checkpoint/checkpoint_ranks.hpp"
#include "checkpoint/random_tensors.hpp"
#include "core/files.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Scratch, test::Tensor, test::loads, test::state_at;
namespace fs = std::filesystem;

constexpr AxisSet kBoth = {Axis::z, Axis::data};

// A weight's moment, a bias's, one in parts of the file, and weights that are not cut.
std::vector<Tensor> tensors(AxisSet over_data = Axis::data, AxisSet over_both = kBoth, int64_t block = 8) {
  return {{"weights/w", {{Dim::split(21, Axis::x), Dim::split(13, Axis::y)}, true}},
          {"weights/b", {{Dim::split(70, Axis::x)}, false}},
          {"adam.m/w", {{Dim::split(21, Axis::x), Dim::split(13, Axis::y)}, true}, at::kFloat, over_data, block, 1},
          {"adam.m/b", {{Dim::split(70, Axis::x)}, false}, at::kDouble, over_both, block, 2},
          {"adam.m/vocabulary",
           {{Dim::padded(29, Axis::x), Dim::padded(7, Axis::y)}, true},
           at::kBFloat16,
           over_data,
           block,
           3}};
}

void save(const fs::path& directory, const Grid& grid, const std::vector<Tensor>& all, int64_t step = 1, int kill = 0) {
  test::save(directory, grid, state_at(step), all, {.kill = kill});
}

void expect_loads(const CheckpointReader& reader, const Grid& grid, const std::vector<Tensor>& all) {
  for (int rank = 0; rank < grid.ranks(); ++rank)
    EXPECT_TRUE(loads(reader, grid, rank, all))
        << grid.coordinate(rank).to_string() << " of " << grid.shape().to_string();
}

// The number of elements of every tensor in every file.
std::map<std::string, std::map<std::string, int64_t>> elements_in(const fs::path& directory) {
  std::map<std::string, std::map<std::string, int64_t>> found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".safetensors") continue;
    auto& of_file = found[entry.path().filename().string()];
    const safetensors::File file(entry.path());
    for (const auto& tensor : file.entries())
      if (tensor.name.find("padding/") == std::string::npos)
        of_file[tensor.name.substr(tensor.name.starts_with("x") ? tensor.name.find('/') + 1 : 0)] += tensor.shape.at(0);
  }
  return found;
}

struct Move {
  const char* from;
  AxisSet from_data, from_both;
  const char* to;
  AxisSet to_data, to_both;
};

class AnyCut : public testing::TestWithParam<Move> {};

TEST_P(AnyCut, ReadsBitForBitWhatAnotherWrote) {
  Scratch scratch;
  const Move& move = GetParam();
  save(scratch.path(), Grid(parse_grid_shape(move.from)), tensors(move.from_data, move.from_both));
  auto wanted = tensors(move.to_data, move.to_both, /*block=*/5);
  for (Tensor& tensor : wanted) tensor.places += 10;
  const CheckpointReader reader(scratch.path());
  reader.verify();
  expect_loads(reader, Grid(parse_grid_shape(move.to)), wanted);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoint, AnyCut,
    testing::Values(Move{"1x1x1x4", Axis::data, kBoth, "1x1x1x1", {}, {}},                  // cut -> whole
                    Move{"2x1x2x1", {}, {}, "2x1x2x3", Axis::data, kBoth},                  // whole -> cut
                    Move{"1x1x1x4", Axis::data, kBoth, "1x1x1x3", Axis::data, kBoth},       // over 4 -> over 3
                    Move{"2x2x2x2", Axis::data, kBoth, "2x2x2x2", Axis::data, kBoth},       // other places and blocks
                    Move{"2x2x2x2", Axis::data, kBoth, "2x2x2x2", {}, {}},                  // the same grid, whole
                    Move{"1x3x2x2", Axis::data, Axis::data, "2x1x1x5", Axis::data, kBoth},  // other axes
                    Move{"3x1x2x2", Axis::data, Axis::z, "1x2x4x2", {}, kBoth}));

// A file of the same grid and place is another rank's when the blocks or the axes are other ones.
TEST(CutCheckpoint, OtherBlocksAndAxesAtTheSamePlacesAreOtherElements) {
  Scratch scratch;
  const Grid grid({.z = 2, .data = 2});
  save(scratch.path(), grid, tensors());
  expect_loads(CheckpointReader(scratch.path()), grid, tensors(Axis::data, kBoth, /*block=*/5));
  expect_loads(CheckpointReader(scratch.path()), grid, tensors(Axis::data, Axis::z));
}

TEST(CutCheckpoint, AnyGridOrderSpecCutAndPlaceReadsAnyOther) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    Scratch scratch;
    std::mt19937 random(seed);
    const Grid from = test::random_grid(random), to = test::random_grid(random);
    std::vector<Tensor> all = test::random_tensors(random);
    test::save(scratch.path(), from, state_at(1), all, {.ranks_of_file = static_cast<int>(seed % 4)});
    const CheckpointReader reader(scratch.path());
    reader.verify();
    std::map<std::string, int64_t> stored;
    for (const auto& [file, entries] : elements_in(reader.directory()))
      for (const auto& [name, elements] : entries) stored[name] += elements;
    for (const Tensor& tensor : all) EXPECT_EQ(stored[tensor.name], tensor.spec.global_numel()) << tensor.name;
    expect_loads(reader, from, all);
    expect_loads(reader, to, all);
    for (Tensor& tensor : all) test::cut_at_random(random, tensor);
    expect_loads(reader, from, all);
    expect_loads(reader, to, all);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

// The state of a sharded optimizer: a rank's blocks of a section of its arena, in one buffer.
TEST(CutCheckpoint, ACompactStateOfAnArenaIsSavedBySlots) {
  Scratch scratch;
  const std::vector<Arena::Entry> entries = {{"w", {{Dim::split(90, Axis::x), Dim::split(301, Axis::y)}, true}, true},
                                             {"v", {{Dim::whole(111), Dim::split(97, Axis::y)}, true}, true},
                                             {"b", {{Dim::split(20001, Axis::x)}, false}, false}};
  const auto state_of = [&](const Grid& grid, int rank, bool filled) {
    const Arena arena(entries, grid, rank, {}, c10::kCPU, ArenaBuffers::none);
    std::vector<CheckpointTensor> state;
    for (const ArenaSlot& slot : arena.slots()) {
      const auto number = static_cast<size_t>(slot.number);
      const CheckpointCut cut = CheckpointCut::over(grid, slot.spec.over_z ? AxisSet(Axis::data) : kBoth);
      const int member = grid.group(rank, cut.axis_set()).index;
      const at::Tensor whole =
          test::whole_shard(number, {slot.name, slot.spec}, grid.shape(), grid.coordinate(rank), 0);
      const Range range{slot.offset, slot.offset + slot.stored};
      const at::Tensor shard = test::filled(cut.owners(grid.shape()).count(member, range), at::kFloat, 0);
      int64_t place = 0;
      for (const Range& part : cut.owners(grid.shape()).ranges(member, range)) {
        if (filled) shard.narrow(0, place, part.size()).copy_(whole.narrow(0, part.begin - range.begin, part.size()));
        place += part.size();
      }
      state.push_back({"adam.m/" + slot.name, slot.spec, shard, cut, slot.offset});
    }
    return state;
  };
  const Grid grid({.x = 1, .y = 2, .z = 2, .data = 3}), other({.x = 2, .y = 1, .z = 1, .data = 4});
  test::save_shards(scratch.path(), grid, state_at(1), [&](int rank) { return state_of(grid, rank, true); });
  for (int rank = 0; rank < other.ranks(); ++rank) {
    const auto expected = state_of(other, rank, true), loaded = state_of(other, rank, false);
    CheckpointReader(scratch.path()).load(other.shape(), other.coordinate(rank), loaded);
    for (size_t i = 0; i < loaded.size(); ++i)
      EXPECT_TRUE(test::same_bits(loaded[i].shard, expected[i].shard)) << loaded[i].name << " of rank " << rank;
  }
}

TEST(CutCheckpoint, EveryRankWritesItsShareUnderItsName) {
  Scratch scratch;
  const std::vector<Tensor> all = {{"weights/w", {{Dim::whole(320)}, false}},
                                   {"adam.m/w", {{Dim::whole(320)}, false}, at::kFloat, Axis::data, 32}};
  save(scratch.path(), Grid({.data = 5}), all);
  auto files = elements_in(scratch / "step-000001");
  EXPECT_EQ(files.size(), 5);
  EXPECT_EQ(files["x0-y0-z0.safetensors"]["weights/w"], 320);
  for (const char* name : {"x0-y0-z0.safetensors", "x0-y0-z0-d1.safetensors", "x0-y0-z0-d4.safetensors"})
    EXPECT_NEAR(static_cast<double>(files[name]["adam.m/w"]), 64, 32) << name;
  EXPECT_EQ(files["x0-y0-z0-d1.safetensors"].size(), 1);
  const std::string manifest = test::read(scratch / "step-000001/manifest.json");
  EXPECT_NE(manifest.find("\"format\": 4"), std::string::npos);
  EXPECT_NE(manifest.find(R"("cut":{"axes":["data"],"block":32})"), std::string::npos) << manifest;
  const CheckpointReader reader(scratch.path());
  EXPECT_FALSE(reader.tensors()[0].cut);
  EXPECT_EQ(reader.tensors()[1].cut, (CheckpointCut{.axes = {Axis::data}, .block = 32}));
}

// Before it writes, a rank knows how many bytes that will be.
TEST(CutCheckpoint, TheBytesOfARankAreThoseOfItsFile) {
  for (const AxisSet over_data : {AxisSet{}, AxisSet(Axis::data)}) {
    Scratch scratch;
    const Grid grid({.x = 2, .z = 2, .data = 2});
    const auto all = tensors(over_data, over_data);
    save(scratch.path(), grid, all);
    auto files = elements_in(scratch / "step-000001");
    int64_t empty = 0;
    std::vector<int64_t> expected;
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      const Coordinate at = grid.coordinate(rank);
      const std::string data = at.data == 0 ? "" : "-d" + std::to_string(at.data);
      int64_t bytes = 0;
      for (const Tensor& tensor : all)
        bytes +=
            files["x" + std::to_string(at.x) + "-y0-z" + std::to_string(at.z) + data + ".safetensors"][tensor.name] *
            static_cast<int64_t>(c10::elementSize(tensor.dtype));
      expected.push_back(bytes);
      empty += bytes == 0 ? 1 : 0;
    }
    run_local(grid.ranks(), [&](Environment& environment) {
      const CheckpointWriter writer(grid, environment.world(), {.directory = scratch.path()});
      const int rank = environment.rank();
      EXPECT_EQ(writer.bytes_of(test::shards(all, grid, rank, 0)), expected[static_cast<size_t>(rank)]) << rank;
    });
    EXPECT_EQ(empty, over_data.empty() ? 4 : 0);
  }
}

// A tensor within one block has one owner.
TEST(CutCheckpoint, ARankThatOwnsNothingWritesNothing) {
  Scratch scratch;
  std::vector<Tensor> all = {{"adam.m/b", {{Dim::whole(9)}, false}, at::kFloat, Axis::data, 4096}};
  const Grid grid({.data = 4});
  const auto at_place = [&](int rank, int64_t place) {
    auto state = test::shards(all, grid, rank, 0);
    const bool mine = place / 4096 % 4 == rank;
    state[0].shard =
        mine ? test::whole_shard(0, all[0], grid.shape(), grid.coordinate(rank), 0) : test::filled(0, at::kFloat, 0);
    state[0].arena_offset = place;
    return state;
  };
  test::save_shards(scratch.path(), grid, state_at(1), [&](int rank) { return at_place(rank, 5 * 4096 + 17); });
  auto files = elements_in(scratch / "step-000001");
  EXPECT_EQ(files.size(), 1);
  EXPECT_EQ(files["x0-y0-z0-d1.safetensors"]["adam.m/b"], 9);
  all[0].cut = {};
  expect_loads(CheckpointReader(scratch.path()), Grid({}), all);
}

void flip_last_byte(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const auto last = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end);
  file.put(last);
}

// With every other file broken, a rank of the same layout loads.
TEST(CutCheckpoint, OnlyTheFilesThatAreNeededAreRead) {
  const Grid grid({.x = 2, .y = 1, .z = 2, .data = 2});
  auto all = tensors();
  all.erase(all.begin(), all.begin() + 2);  // tensors that are not cut are in the files of data 0
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    Scratch scratch;
    save(scratch.path(), grid, all);
    const Coordinate at = grid.coordinate(rank);
    const std::string mine = detail::concatenate("x", at.x, "-y0-z", at.z, at.data == 1 ? "-d1" : "", ".safetensors");
    EXPECT_TRUE(fs::exists(scratch / "step-000001" / mine));
    for (const auto& entry : fs::directory_iterator(scratch / "step-000001"))
      if (entry.path().extension() == ".safetensors" && entry.path().filename() != mine) flip_last_byte(entry.path());
    const CheckpointReader reader(scratch.path());
    EXPECT_TRUE(loads(reader, grid, rank, all)) << mine;
    flip_last_byte(scratch / "step-000001" / mine);
    EXPECT_USER_ERROR(loads(reader, grid, rank, all), mine + " is broken: its checksum is ");
  }
}

// Whole on disk, cut in memory: the file of the block is enough for each replica.
TEST(CutCheckpoint, AReplicaCutsOnlyTheFileOfItsBlock) {
  Scratch scratch;
  std::vector<Tensor> all = {tensors()[2]};
  all[0].cut = {};
  save(scratch.path(), Grid({.x = 2}), all);
  flip_last_byte(scratch / "step-000001/x0-y0-z0.safetensors");
  all[0].cut = Axis::data;
  const Grid grid({.x = 2, .data = 3});
  for (int data = 0; data < 3; ++data)
    EXPECT_TRUE(loads(CheckpointReader(scratch.path()), grid, grid.rank({.x = 1, .data = data}), all));
}

TEST(CutCheckpoint, ARunThatDiesWhileSavingLeavesTheCheckpointBeforeIt) {
  Scratch scratch;
  const Grid grid({.z = 2, .data = 2});
  save(scratch.path(), grid, tensors(), 100);
  for (const int kill : {1, 2}) {
    EXPECT_THROW(save(scratch.path(), grid, tensors(), 200, kill), std::runtime_error);
    EXPECT_TRUE(fs::exists(scratch / "step-000200.partial"));
    const CheckpointReader reader(scratch.path());
    EXPECT_EQ(reader.state().step, 100);
    expect_loads(reader, grid, tensors());
  }
  save(scratch.path(), grid, tensors(), 200);
  EXPECT_EQ(CheckpointReader(scratch.path()).state().step, 200);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch / "step-000200"), {}), 5);
}

TEST(CutCheckpoint, AMissingFileOfAReplicaIsNamed) {
  Scratch scratch;
  const Grid grid({.z = 2, .data = 2});
  for (const int64_t step : {100, 200}) save(scratch.path(), grid, tensors(), step);
  fs::remove(scratch / "step-000200/x0-y0-z1-d1.safetensors");
  EXPECT_USER_ERROR(CheckpointReader(scratch.path()), "step-000200/x0-y0-z1-d1.safetensors is missing",
                    "the newest older checkpoint that is whole is " + (scratch / "step-000100").string());
}

TEST(CutCheckpoint, WrongCutsAndShardsAreRefusedBeforeAnythingIsWritten) {
  Scratch scratch;
  const Grid grid({.z = 2, .data = 2});
  const auto refused = [&](auto change) {
    return test::user_error([&] {
      test::save_shards(scratch.path(), grid, state_at(1), [&](int rank) {
        auto state = test::shards(tensors(), grid, rank, 0);
        if (rank == 0) change(state);
        return state;
      });
    });
  };
  const auto expect_in = [](const std::string& sentence, const std::string& part) {
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  };
  const std::string place = std::to_string(test::place_of(tensors()[3], {}));
  expect_in(refused([](auto& state) { state[3].shard = state[1].shard; }),
            "for [70/x], cut over z+data in blocks of 8 from place " + place + " of the arena, on grid 1x1x2x2");
  expect_in(refused([](auto& state) { state[2].cut->axes = {Axis::z, Axis::data}; }),
            "needs axes that replicate [21/x, 13/y] over z, z does not");
  expect_in(refused([](auto& state) { state[3].cut->axes = {Axis::data, Axis::z}; }),
            "adam.m/b over data+z in blocks of 8 must name its axes in the grid's order, xyzd");
  expect_in(refused([](auto& state) { state[3].cut->axes = {Axis::z, Axis::z}; }), "must name axis z only once");
  expect_in(refused([](auto& state) { state[3].cut->axes = {}; }), "the cut of adam.m/b needs at least one axis");
  expect_in(refused([](auto& state) { state[3].cut->block = 0; }), "and 0 elements");
  expect_in(refused([](auto& state) { state[3].arena_offset = -1; }), "adam.m/b needs the place of its range");
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  save(scratch.path(), grid, tensors());
  auto state = test::shards(tensors(), grid, 0, 0);
  state[3].shard = state[1].shard;
  EXPECT_USER_ERROR(CheckpointReader(scratch.path()).load(grid.shape(), {}, state), "the shard of adam.m/b must be",
                    "cut over z+data in blocks of 8");
}

TEST(CutCheckpoint, RanksOfAGroupMustAgreeOnThePlace) {
  Scratch scratch;
  const Grid grid({.data = 2});
  const auto shards_of = [&](int rank) {
    auto state = test::shards(tensors(), grid, rank, 0);
    if (rank == 1) state[3].arena_offset += 2 * 8;  // other elements, as many of them
    return state;
  };
  EXPECT_USER_ERROR(test::save_shards(scratch.path(), grid, state_at(1), shards_of),
                    "the cut of adam.m/b over z+data in blocks of 8 needs one place in the arena, got ",
                    " on rank 0 and ", " on rank 1");
  EXPECT_TRUE(checkpoints_in(scratch.path()).empty());
}

// Writes `text` with the checksum that it should have.
void write_manifest(const fs::path& path, const std::string& text) {
  const std::string key = ",\n\"manifest_xxh64\": \"";
  const std::string before = text.substr(0, text.rfind(key));
  std::ofstream(path) << before << key << disk::hex(disk::xxh64_of(before)) << "\"\n}\n";
}

// A manifest in which `from` stands instead of `to` is refused with `part` in the sentence.
struct Change {
  std::string from, to, part;
};

void expect_refused(const fs::path& run, const Grid& grid, const std::vector<Tensor>& all,
                    const std::vector<Change>& changes) {
  const fs::path path = run / "step-000001/manifest.json";
  const std::string manifest = test::read(path);
  for (const auto& [from, to, part] : changes) {
    std::string changed = manifest;
    ASSERT_NE(changed.find(from), std::string::npos) << from << " in " << manifest;
    write_manifest(path, changed.replace(changed.find(from), from.size(), to));
    const std::string sentence = test::user_error([&] { loads(CheckpointReader(run), grid, 1, all); });
    EXPECT_NE(sentence.find(part), std::string::npos) << to << ": " << sentence;
  }
  write_manifest(path, manifest);
  EXPECT_TRUE(loads(CheckpointReader(run), grid, 1, all));
}

std::vector<Change> changes_of_cut() {
  return {{R"(["data"],"block")", R"(["x"],"block")", "needs axes that replicate [75/x], x does not"},
          {R"(["data"],"block")", R"([],"block")", "needs at least one axis"},
          {R"(["data"],"block")", R"(["data","data"],"block")", "must name axis data only once"},
          {R"(["data"],"block")", R"(["time"],"block")", "no axis 'time'"},
          {R"("block":16)", R"("block":0)", "manifest.json is broken: blocks need at least 1 owner"}};
}

std::vector<Tensor> one_cut_tensor() {
  return {{"adam.m/b", {{Dim::split(75, Axis::x)}, false}, at::kFloat, Axis::data, 16, 5}};
}

TEST(CutCheckpoint, AChangedManifestIsRefused) {
  Scratch scratch;
  const Grid grid({.data = 2});
  save(scratch.path(), grid, one_cut_tensor());
  const std::string place = std::to_string(test::place_of(one_cut_tensor()[0], {}));
  auto changes = changes_of_cut();
  const std::vector<Change> more = {
      {R"("block":16)", R"("block":200)", "whose tensors take"},
      {"[[" + place + "]]", "[[-1]]", "needs the place of its range in the arena, got -1"},
      {"[[" + place + "]]", "[[9223372036854775807]]", "needs the place of its range in the arena, got 9"},
      {"[[" + place + "]]", "[[]]", "0 places of 1 tensors"},
      {"[[" + place + "]]", "[]", "a part with places number 0"},
      {"[[0,0,0,0,0,\"y+z\"", "[[0,0,0,0,2,\"y+z\"", "which is not on grid 1x1x1x2"},
      {"[[0,0,0,0,0,\"y+z\"", "[[7,0,0,0,0,\"y+z\"", "a part lies in file number 7"},
      {"[[0,0,0,0,0,\"y+z\"", "[[0,0,0,0,0,\"w\"", "'w' is no set of axes"},
      {"[0,0,0,0,0,\"y+z\",0", "[0,0,0,0,0,\"y+z\",-1", "lies outside of"},
      {"[1,0,0,0,1,\"y+z\"", "[1,0,0,0,1,\"data\"", "which another rank writes"},
      {",\"y+z\"", "", "a part of 11 members"}};
  changes.insert(changes.end(), more.begin(), more.end());
  expect_refused(scratch.path(), grid, one_cut_tensor(), changes);
  const std::string manifest = test::read(scratch / "step-000001/manifest.json");
  scratch.file("step-000001/manifest.json", std::string(manifest).replace(manifest.find("16}"), 2, "32"));
  EXPECT_USER_ERROR(CheckpointReader(scratch.path()), "manifest.json is broken: its checksum is ");
}

fs::path stored_by_0_2(const Scratch& scratch, const std::string& name) {
  fs::copy(fs::path(STORED) / "0.2" / name, scratch / name, fs::copy_options::recursive);
  return scratch / name;
}

TEST(CutCheckpoint, AChangedManifestOfFormat2IsRefused) {
  Scratch scratch;
  const fs::path run = stored_by_0_2(scratch, "one");
  const std::string place = std::to_string(test::place_of(one_cut_tensor()[0], {})),
                    next_block = std::to_string(test::place_of(one_cut_tensor()[0], {}) + 16);
  const std::string piece = "[[0,0,75," + place + "]]", cut = R"(,"cut":{"axes":["data"],"block":16})";
  auto changes = changes_of_cut();
  const std::vector<Change> more = {
      {R"("block":16)", R"("block":200)", "elements of adam.m/b, its manifest says"},
      {piece, "[[0,0,75," + next_block + "]]", "elements of adam.m/b, its manifest says"},
      {piece, "[[0,0,75,-1]]", "needs the place of its range in the arena, got -1"},
      {piece, "[[0,0,75,9223372036854775807]]", "needs the place of its range in the arena, got 9"},
      {piece, "[[0,0,75]]", "holds adam.m/b without its place in the arena"},
      {piece, "[[0,0]]", "a piece of 2 numbers"},
      {piece, "[[-1,0,75]]", "holds tensor number -1"},
      {piece, "[]", "lacks "},
      {cut, "", "holds adam.m/b, not cut, with a place in the arena"},
      {"\"pieces\":[]", "\"pieces\":" + piece, "lists adam.m/b, which the first rank of its cut lists"}};
  changes.insert(changes.end(), more.begin(), more.end());
  expect_refused(run, Grid({.data = 2}), one_cut_tensor(), changes);
}

// As older versions wrote them: a cut tensor's range is listed by the first rank of its group.
TEST(CutCheckpoint, AnyGridReadsFormat2) {
  Scratch scratch;
  const CheckpointReader reader(stored_by_0_2(scratch, "cut"));
  reader.verify();
  EXPECT_EQ(reader.grid(), parse_grid_shape("2x1x2x2"));
  for (const char* grid : {"2x1x2x2", "1x1x1x1", "1x2x3x1", "2x1x2x3"}) {
    expect_loads(reader, Grid(parse_grid_shape(grid)), tensors());
    expect_loads(reader, Grid(parse_grid_shape(grid)), tensors({}, {}));
    expect_loads(reader, Grid(parse_grid_shape(grid)), tensors(Axis::data, Axis::data, /*block=*/5));
  }
}

TEST(CutCheckpoint, AnyGridReadsFormat3) {
  Scratch scratch;
  const std::vector<Tensor> all = {
      {"weights/vocabulary", {{Dim::padded(4099, Axis::x), Dim::split(3, Axis::y)}, true}, at::kByte}};
  const CheckpointReader reader(stored_by_0_2(scratch, "tiles"));
  reader.verify();
  for (const char* grid : {"3x1x2x1", "1x1x1x1", "2x2x1x2"}) expect_loads(reader, Grid(parse_grid_shape(grid)), all);
}

// A checkpoint that version 0.1 wrote, read into cut shards, written so and read whole.
TEST(CutCheckpoint, AFormat1CheckpointIsCutAndReadBackWithTheSameBits) {
  Scratch scratch;
  const CheckpointReader stored(fs::path(STORED) / "0.1/gpt-run");
  const auto empty = [&](const Grid& grid, int rank, bool cut) {
    std::vector<CheckpointTensor> state;
    for (const auto& [name, dtype, spec, none] : stored.tensors()) {
      CheckpointTensor tensor{name, spec, {}};
      const Coordinate at = grid.coordinate(rank);
      int64_t numel = spec.range_numel(grid.shape(), at, kRangeAlignment);
      if (cut && name.starts_with("adam")) {
        tensor.cut = CheckpointCut::over(grid, spec.over_z ? AxisSet(Axis::data) : kBoth);
        tensor.cut->block = 7;
        tensor.arena_offset = 3;
        numel = tensor.cut->owners(grid.shape()).count(grid.group(rank, tensor.cut->axis_set()).index, {3, 3 + numel});
      }
      tensor.shard = test::filled(numel, dtype, 0x77);
      state.push_back(std::move(tensor));
    }
    return state;
  };
  const Grid grid({.x = 2, .y = 1, .z = 2, .data = 2});
  test::save_shards(scratch.path(), grid, stored.state(), [&](int rank) {
    auto state = empty(grid, rank, true);
    stored.load(grid.shape(), grid.coordinate(rank), state);
    return state;
  });
  const auto before = empty(Grid({}), 0, false), after = empty(Grid({}), 0, false);
  stored.load({}, {}, before);
  CheckpointReader(scratch.path()).load({}, {}, after);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch / "step-000003"), {}), 1 + grid.ranks());
  EXPECT_GT(before.size(), 40);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(test::same_bits(before[i].shard, after[i].shard)) << before[i].name;
}

}  // namespace
}  // namespace axonn
