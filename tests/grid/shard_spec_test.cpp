#include "axonn/grid/shard_spec.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

Segment over(int64_t size, Axis axis, int64_t tile = 0) { return {.size = size, .axis = axis, .tile = tile}; }

const std::vector<GridShape> kGrids = {{},
                                       {.x = 2},
                                       {.y = 3},
                                       {.z = 2},
                                       {.x = 3, .y = 2},
                                       {.x = 2, .y = 2, .z = 2, .data = 2},
                                       {.x = 5, .y = 1, .z = 3},
                                       {.x = 1, .y = 7, .z = 4},
                                       {.x = 4, .y = 3, .z = 5}};

std::vector<ShardSpec> specs() {
  const Dim qkv = {{over(6, Axis::x), over(6, Axis::x), over(7, Axis::x)}};
  const Dim skip = {{over(3, Axis::y), over(8, Axis::y)}};
  const Dim whole = {{Segment{.size = 3}, Segment{.size = 2}}};
  std::vector<ShardSpec> all = {
      {.dims = {}},
      {.dims = {Dim::whole(5)}},
      {.dims = {Dim::split(13, Axis::y)}},
      {.dims = {Dim::split(12, Axis::y), Dim::split(8, Axis::x)}},
      {.dims = {Dim::split(7, Axis::x), Dim::whole(3), Dim::split(5, Axis::y)}},
      {.dims = {Dim::padded(23, Axis::x), Dim::split(6, Axis::y)}},
      {.dims = {Dim::padded(2, Axis::x), Dim::whole(4)}},  // ranks with only padding
      {.dims = {Dim::split(6, Axis::y), Dim::padded(11, Axis::x)}},
      {.dims = {Dim{{over(21, Axis::x, 4)}}, Dim::split(6, Axis::y)}},  // padded on one rank too
      {.dims = {Dim::split(4, Axis::y), Dim{{over(5, Axis::x, 4), over(9, Axis::x, 2)}}}},
      {.dims = {Dim::split(9, Axis::y), qkv}},
      {.dims = {qkv, skip}},
      {.dims = {whole, skip, Dim::whole(2)}},
      {.dims = {Dim::whole(3), Dim{{over(5, Axis::x, 1), over(4, Axis::x, 1)}}, Dim::split(4, Axis::y)}},
      {.dims = {Dim::split(2, Axis::x), Dim::whole(1), Dim::whole(3), Dim::split(3, Axis::y), Dim::whole(2)}},
      {.dims = {Dim::split(0, Axis::x), Dim::whole(3)}},
      {.dims = {Dim::whole(3), Dim{{over(3, Axis::x, 1), over(1, Axis::x, 1)}}}},  // x = 2: adjacent rows touch
  };
  const size_t count = all.size();
  for (size_t i = 0; i < count; ++i) {
    all.push_back(all[i]);
    all.back().over_z = true;
  }
  return all;
}

// f(spec, shape, coordinate) for every coordinate of every test grid.
void everywhere(auto&& f) {
  for (const ShardSpec& spec : specs())
    for (const GridShape& shape : kGrids) {
      SCOPED_TRACE(spec.to_string() + " on " + shape.to_string());
      const Grid grid(shape);
      for (int rank = 0; rank < grid.ranks(); ++rank) ASSERT_NO_FATAL_FAILURE(f(spec, shape, grid.coordinate(rank)));
    }
}

// The expected mapped_ranges(), element by element: the global index of each element of the block,
// -1 for padding.
std::vector<int64_t> global_of_block(const ShardSpec& spec, const GridShape& shape, const Coordinate& at) {
  std::vector<int64_t> global = {0};
  for (const Dim& dim : spec.dims) {
    std::vector<int64_t> places(static_cast<size_t>(dim.local_size(shape, at)), -1);
    for (const auto& each : dim.local_ranges(shape, at))
      for (int64_t i = 0; i < each.global.size(); ++i)
        places[static_cast<size_t>(each.local_begin + i)] = each.global.begin + i;
    std::vector<int64_t> next;
    for (const int64_t outer : global)
      for (const int64_t place : places) next.push_back(outer < 0 || place < 0 ? -1 : outer * dim.size() + place);
    global = std::move(next);
  }
  return global;
}

TEST(Runs, CoverEveryGlobalElementOnceOverTheShardingAxes) {
  for (const ShardSpec& spec : specs())
    for (const GridShape& shape : kGrids) {
      std::vector<int> count(static_cast<size_t>(spec.global_numel()), 0);
      const Grid grid(shape);
      for (int rank = 0; rank < grid.ranks(); ++rank) {
        const Coordinate at = grid.coordinate(rank);
        bool first = true;  // first of the replicas
        for (const Axis axis : kAxes) first = first && !(spec.replicated_axes().contains(axis) && at[axis] != 0);
        if (!first) continue;
        for (const axonn::MappedRange& mapped : mapped_ranges(spec, shape, at, spec.block_range(shape, at, 4)))
          for (int64_t i = 0; i < mapped.size; ++i) ++count.at(static_cast<size_t>(mapped.global_begin + i));
      }
      EXPECT_TRUE(std::ranges::all_of(count, [](int c) { return c == 1; }))
          << spec.to_string() << " on " << shape.to_string();
    }
}

TEST(Runs, AreMaximalAscendingAndRightForEveryElement) {
  everywhere([](const ShardSpec& spec, const GridShape& shape, const Coordinate& at) {
    const auto expected = global_of_block(spec, shape, at);
    ASSERT_EQ(static_cast<int64_t>(expected.size()), spec.block_numel(shape, at));
    std::vector<int64_t> got(expected.size(), -1);
    int64_t block_end = -1, global_end = -1;
    for (const axonn::MappedRange& mapped : mapped_ranges(spec, shape, at, {0, spec.block_numel(shape, at)})) {
      ASSERT_GT(mapped.size, 0);
      ASSERT_GE(mapped.local_begin, std::max<int64_t>(0, block_end));
      ASSERT_FALSE(mapped.local_begin == block_end && mapped.global_begin == global_end) << "two runs that are one";
      std::iota(got.begin() + mapped.local_begin, got.begin() + mapped.local_begin + mapped.size, mapped.global_begin);
      block_end = mapped.local_begin + mapped.size;
      global_end = mapped.global_begin + mapped.size;
    }
    ASSERT_EQ(got, expected);
  });
}

TEST(Runs, OfAPartAreThePartOfTheRuns) {
  everywhere([](const ShardSpec& spec, const GridShape& shape, const Coordinate& at) {
    const auto expected = global_of_block(spec, shape, at);
    const auto size = static_cast<int64_t>(expected.size());
    for (const Range part :
         {Range{0, size / 2}, Range{size / 3, size - size / 5}, Range{size, size}, Range{size / 2, size / 2}}) {
      std::map<int64_t, int64_t> got;
      for (const axonn::MappedRange& mapped : mapped_ranges(spec, shape, at, part))
        for (int64_t i = 0; i < mapped.size; ++i) got[mapped.local_begin + i] = mapped.global_begin + i;
      std::map<int64_t, int64_t> wanted;
      for (int64_t i = part.begin; i < part.end; ++i)
        if (expected[static_cast<size_t>(i)] >= 0) wanted[i] = expected[static_cast<size_t>(i)];
      ASSERT_EQ(got, wanted);
    }
  });
}

TEST(Runs, AreFewWhereTheMemoryIsContiguous) {
  const ShardSpec rows = {.dims = {Dim::split(49152, Axis::x), Dim::whole(12288)}, .over_z = true};
  const GridShape grid = {.x = 8, .z = 4};
  const auto one = mapped_ranges(rows, grid, {.x = 3, .z = 2}, rows.block_range(grid, {.x = 3, .z = 2}, 64));
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].global_begin, (49152 / 8 * 3 + 49152 / 8 / 4 * 2) * 12288);
  EXPECT_EQ(one[0].size, 49152 / 8 / 4 * 12288);

  const ShardSpec columns = {.dims = {Dim::whole(12288), Dim::split(49152, Axis::x)}};
  EXPECT_EQ(mapped_ranges(columns, grid, {.x = 1}, {0, columns.block_numel(grid, {})}).size(), 12288u);
  EXPECT_EQ(mapped_ranges(columns, {}, {}, {0, columns.global_numel()}).size(), 1u);
}

TEST(BlockRange, IsEquallyLongOnAllZRanksAndCoversTheBlockOnce) {
  for (const ShardSpec& spec : specs())
    for (const GridShape& shape : kGrids)
      for (const int64_t align : {1, 4, 64})
        for (int x = 0; x < shape.x; ++x)
          for (int y = 0; y < shape.y; ++y) {
            const Coordinate first = {.x = x, .y = y};
            const int64_t stored = spec.range_numel(shape, first, align);
            EXPECT_EQ(stored % align, 0);
            int64_t end = 0;
            for (int z = 0; z < shape.z; ++z) {
              const Coordinate at = {.x = x, .y = y, .z = z};
              EXPECT_EQ(spec.range_numel(shape, at, align), stored);
              const Range range = spec.block_range(shape, at, align);
              EXPECT_LE(range.size(), stored);
              if (spec.over_z)
                EXPECT_EQ(range.begin, end);
              else
                EXPECT_EQ(range.begin, 0);
              end = range.end;
            }
            EXPECT_EQ(end, spec.block_numel(shape, first)) << spec.to_string() << " on " << shape.to_string();
          }
}

TEST(EvenPart, DiffersByAtMostOneAndLeavesNothingOut) {
  for (const int64_t size : {0, 1, 5, 12, 50257})
    for (const int parts : {1, 2, 3, 7, 16}) {
      int64_t end = 0;
      for (int i = 0; i < parts; ++i) {
        const Range part = even_part(size, parts, i);
        EXPECT_EQ(part.begin, end);
        EXPECT_TRUE(part.size() == size / parts || part.size() == size / parts + 1);
        end = part.end;
      }
      EXPECT_EQ(end, size);
    }
}

TEST(Dim, PadsTheVocabularyAlikeOnEveryRank) {
  const Dim vocabulary = Dim::padded(50257, Axis::x);
  const GridShape grid = {.x = 4};
  for (int x = 0; x < 4; ++x) EXPECT_EQ(vocabulary.local_size(grid, {.x = x}), 99 * 128);
  const auto last = vocabulary.local_ranges(grid, {.x = 3});
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].global, (Range{3 * 99 * 128, 50257}));
  EXPECT_EQ(vocabulary.size(), 50257);
  EXPECT_EQ(vocabulary.local_size({}, {}), 50304);
  EXPECT_EQ(Dim::padded(4095, Axis::x).local_size({.x = 4}, {}), 1024);
  EXPECT_EQ(Dim::padded(4096, Axis::x).local_size({.x = 3}, {}), 11 * 128);
}

TEST(Dim, SplitsEverySegmentOfAFusedProjection) {
  const Dim qkv = {{over(8, Axis::x), over(8, Axis::x), over(8, Axis::x)}};
  const auto held = qkv.local_ranges({.x = 2}, {.x = 1});
  ASSERT_EQ(held.size(), 3u);
  EXPECT_EQ(held[0].global, (Range{4, 8}));
  EXPECT_EQ(held[1].global, (Range{12, 16}));
  EXPECT_EQ(held[2].global, (Range{20, 24}));
  EXPECT_EQ(held[2].local_begin, 8);
  EXPECT_EQ(qkv.local_ranges({}, {}).size(), 1u);
}

TEST(ShardSpec, KnowsWhereItIsReplicated) {
  const ShardSpec weight = {.dims = {Dim::split(8, Axis::y), Dim::split(8, Axis::x)}, .over_z = true};
  EXPECT_EQ(weight.replicated_axes(), AxisSet(Axis::data));
  const ShardSpec bias = {.dims = {Dim::split(8, Axis::x)}};
  EXPECT_EQ(bias.replicated_axes(), AxisSet({Axis::y, Axis::z, Axis::data}));
  EXPECT_TRUE(bias.uses(Axis::x) && !bias.uses(Axis::y) && !bias.uses(Axis::z) && !bias.uses(Axis::data));
  EXPECT_TRUE(weight.uses(Axis::z));
}

TEST(ShardSpec, HasAText) {
  const ShardSpec embedding = {.dims = {Dim::padded(50257, Axis::x), Dim::split(768, Axis::y)}, .over_z = true};
  EXPECT_EQ(embedding.to_string(), "[50257/x(padded to 128), 768/y] over z");
  const ShardSpec qkv = {.dims = {Dim{{over(4, Axis::x), over(4, Axis::x), over(2, Axis::x)}}}};
  EXPECT_EQ(qkv.to_string(), "[4/x|4/x|2/x]");
}

TEST(ShardSpec, HasGlobalAndBlockShapes) {
  const ShardSpec embedding = {.dims = {Dim::padded(10, Axis::x), Dim::split(9, Axis::y)}};
  EXPECT_EQ(embedding.global_shape(), (std::vector<int64_t>{10, 9}));
  EXPECT_EQ(embedding.block_shape({.x = 4, .y = 2}, {.x = 3, .y = 1}), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(embedding.block_numel({.x = 4, .y = 2}, {.x = 3, .y = 0}), 12);
}

TEST(ShardSpec, RefusesSplitsThatItCannotKeep) {
  const ShardSpec twice = {.dims = {Dim::split(8, Axis::x), Dim::split(8, Axis::x)}};
  EXPECT_THROW(twice.block_shape({.x = 2}, {}), UserError);
  const ShardSpec over_data = {.dims = {Dim::split(8, Axis::data)}};
  EXPECT_THROW(over_data.block_numel({.data = 2}, {}), UserError);
  const ShardSpec two_axes = {.dims = {Dim{{over(8, Axis::x), over(8, Axis::y)}}}};
  EXPECT_THROW(two_axes.block_numel({}, {}), UserError);
  const ShardSpec mixed = {.dims = {Dim{{over(8, Axis::x), Segment{.size = 2}}}}};
  EXPECT_THROW(mixed.replicated_axes(), UserError);
  const ShardSpec fine = {.dims = {Dim::whole(8)}};
  EXPECT_THROW(mapped_ranges(fine, {}, {}, {0, 9}), UserError);
  EXPECT_THROW(mapped_ranges(fine, {}, {}, {3, 2}), UserError);
  EXPECT_THROW(fine.range_numel({}, {}, 0), UserError);
}

}  // namespace
}  // namespace axonn
