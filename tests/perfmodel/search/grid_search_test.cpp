#include "axonn/network/decoder/decoder_network.hpp"
#include "axonn/perfmodel/search/grid_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/network/decoder/decoder_presets.hpp"
#include "axonn/network/unet/unet_network.hpp"
#include "axonn/network/unet/unet_presets.hpp"
#include "perfmodel/search/grid_planner.hpp"

namespace axonn {
namespace {

NetworkModel preset(std::string_view name) { return network_model(std::string(name), find_decoder_preset(name).shape); }

// The paper's ranking, as with `--mode aware`.
SearchOptions published(int64_t gpus, int64_t tokens, int64_t min_tensor) {
  return {.gpus = gpus,
          .batch_tokens = tokens,
          .mode = BandwidthMode::aware,
          .coefficients = Coefficients::paper,
          .objective = Objective::communication,
          .min_tensor = min_tensor,
          .top = 1000};
}

std::vector<std::string> first_grids(const SearchResult& result, size_t count) {
  std::vector<std::string> grids;
  for (const PlannedLayout& layout : result.layouts)
    if (grids.size() < count) grids.push_back(layout.grid.to_string());
  return grids;
}

TEST(GridSearch, RanksThe36GridsOfGpt20bAsThePaperDoes) {
  const auto result = search_grids(preset("gpt20b"), find_machine("perlmutter"), published(32, 65536, 16));
  EXPECT_EQ(result.considered, 36);
  EXPECT_EQ(first_grids(result, 8), (std::vector<std::string>{"1x1x32x1", "2x1x16x1", "4x1x4x2", "4x1x8x1", "8x1x2x2",
                                                              "8x1x4x1", "2x1x8x2", "1x1x16x2"}));
  EXPECT_TRUE(result.layouts[3].ties_with_previous);
  EXPECT_TRUE(result.layouts[5].ties_with_previous);
  EXPECT_FALSE(result.layouts[4].ties_with_previous);
}

TEST(GridSearch, RanksThe230GridsOfGpt80bAsThePaperDoes) {
  const auto result = search_grids(preset("gpt80b"), find_machine("perlmutter"), published(1024, 4194304, 64));
  EXPECT_EQ(result.considered, 230);
  EXPECT_EQ(first_grids(result, 6),
            (std::vector<std::string>{"1x1x1024x1", "1x1x512x2", "1x1x256x4", "1x1x128x8", "1x1x64x16", "2x1x512x1"}));
}

// Long sequences save more scores than their rows cost; automatic takes the better way of each.
TEST(GridSearch, DividesRowsOfQueriesWhereThatIsFaster) {
  for (const int64_t sequence : {512, 65536}) {
    DecoderShape shape = find_decoder_preset("gpt5b").shape;
    shape.sequence = sequence;
    const NetworkModel network = network_model("gpt5b", shape);
    const auto of = [&](AttentionRows rows) {
      const SearchOptions options = {
          .batch_tokens = 16 * 65536, .checkpointing = Checkpointing::on, .attention_rows = rows, .micro_batch = 1};
      return plan_grid(network, find_machine("dgx-h100"), options, {2, 4, 2, 1});
    };
    const PlannedLayout off = of(AttentionRows::off), on = of(AttentionRows::on), best = of(AttentionRows::automatic);
    EXPECT_FALSE(off.attention_rows);
    EXPECT_TRUE(on.attention_rows);
    EXPECT_EQ(best.value, std::min(on.value, off.value)) << sequence;
    EXPECT_EQ(best.attention_rows, on.value < off.value) << sequence;
    if (sequence > 512) {
      EXPECT_LT(on.value, off.value);
    }
  }
}

// Inside a node, an element moves in the time of a few in memory. automatic takes the better way.
// One rank along x, and a UNet, have nothing to divide.
TEST(GridSearch, DividesRowsOfNormsWhereThatIsFaster) {
  const NetworkModel network = preset("gpt5b");
  const auto of = [&](NormRows rows, const GridShape& grid) {
    const SearchOptions options = {
        .batch_tokens = 64 * 2048, .checkpointing = Checkpointing::off, .norm_rows = rows, .micro_batch = 1};
    return plan_grid(network, find_machine("dgx-h100"), options, grid);
  };
  const GridShape grid = {8, 1, 8, 1};
  const PlannedLayout off = of(NormRows::off, grid), on = of(NormRows::on, grid), best = of(NormRows::automatic, grid);
  EXPECT_FALSE(off.norm_rows);
  EXPECT_TRUE(on.norm_rows);
  EXPECT_EQ(best.value, std::min(on.value, off.value));
  EXPECT_EQ(best.norm_rows, on.value < off.value);
  EXPECT_LT(on.memory.activation_bytes, off.memory.activation_bytes);
  EXPECT_EQ(on.memory.weight_bytes, off.memory.weight_bytes);
  EXPECT_FALSE(of(NormRows::on, {1, 1, 64, 1}).norm_rows);
  const NetworkModel unet = network_model("unet-tiny", find_unet_preset("unet-tiny").shape);
  const auto planned = [&](NormRows rows) {
    const SearchOptions options = {.batch_tokens = 64, .norm_rows = rows};
    return plan_grid(unet, find_machine("dgx-h100"), options, {2, 1, 4, 1});
  };
  EXPECT_FALSE(planned(NormRows::automatic).norm_rows);
  EXPECT_THROW(planned(NormRows::on), UserError);
}

TEST(GridSearch, ShowsTiesThatOnlyTheOrderOfSumsTellsApart) {
  SearchOptions options = published(96, 96 * 1024, 1);  // data and z cost the same
  options.mode = BandwidthMode::agnostic;
  const auto result = search_grids(preset("gpt-124m"), find_machine("perlmutter"), options);
  int ties = 0, rounded = 0;
  for (size_t i = 1; i < result.layouts.size(); ++i) {
    const PlannedLayout &one = result.layouts[i - 1], &next = result.layouts[i];
    const bool equal = std::abs(next.value - one.value) <= 1e-12 * one.value;
    EXPECT_EQ(next.ties_with_previous, equal) << next.grid.to_string();
    ties += equal ? 1 : 0;
    rounded += equal && next.value != one.value ? 1 : 0;
    if (equal) {
      EXPECT_LT(std::tie(one.grid.x, one.grid.y, one.grid.z), std::tie(next.grid.x, next.grid.y, next.grid.z));
    }
  }
  EXPECT_GT(ties, 20);
  EXPECT_GT(rounded, 0);
}

TEST(GridSearch, FindsPlacementsThatBeatEveryOrderWithXInnermost) {
  const auto best = [](std::string_view model, int64_t gpus, int64_t tokens, int64_t min_tensor) {
    SearchOptions options = published(gpus, tokens, min_tensor);
    options.mode = BandwidthMode::exact;
    return search_grids(preset(model), find_machine("perlmutter"), options).layouts.front();
  };
  const PlannedLayout small = best("gpt20b", 32, 65536, 16);
  EXPECT_EQ(small.grid.to_string(), "2x1x16x1");
  EXPECT_EQ(small.placement->to_string(), "z4 | x2 z4");
  EXPECT_NEAR(small.time.communication.total(), .6706, 5e-5);
  const PlannedLayout large = best("gpt80b", 1024, 4194304, 64);
  EXPECT_EQ(large.grid.to_string(), "2x1x512x1");
  EXPECT_EQ(large.placement->levels[0].z, 4);
  EXPECT_NEAR(large.time.communication.total(), 2.8720, 5e-5);
}

void expect_same(const SearchResult& a, const SearchResult& b, const std::string& what) {
  ASSERT_EQ(a.layouts.size(), b.layouts.size()) << what;
  EXPECT_EQ(a.candidates, b.candidates) << what;
  EXPECT_EQ(a.rejections.size(), b.rejections.size()) << what;
  for (size_t i = 0; i < a.layouts.size(); ++i) {
    const PlannedLayout &one = a.layouts[i], &other = b.layouts[i];
    EXPECT_EQ(one.grid, other.grid) << what << " place " << i;
    EXPECT_EQ(one.placement, other.placement) << what;
    EXPECT_EQ(one.value, other.value) << what;
    EXPECT_EQ(one.micro_batch, other.micro_batch) << what;
    EXPECT_EQ(one.recompute, other.recompute) << what;
    EXPECT_EQ(one.precision, other.precision) << what;
    EXPECT_EQ(one.ties_with_previous, other.ties_with_previous) << what;
  }
}

TEST(GridSearch, PrunedFindsWhatBruteForceFindsUpTo64Gpus) {
  int64_t saved = 0;
  for (const char* machine : {"perlmutter", "frontier", "workstation"})
    for (const int64_t gpus : {1, 2, 4, 6, 8, 16, 24, 32, 48, 64})
      for (const Objective objective : {Objective::time, Objective::communication, Objective::memory, Objective::cost})
        for (const int64_t top : {1, 5}) {
          if (std::string_view(machine) == "workstation" && gpus > 8) continue;
          if (gpus == 6 && std::string_view(machine) != "workstation") continue;
          SearchOptions options = {.gpus = gpus,
                                   .batch_tokens = 96 * 1024,
                                   .objective = objective,
                                   .precisions = {Precision::bf16, Precision::fp32},
                                   .top = top};
          const auto model = preset("gpt-124m");
          const auto pruned = search_grids(model, find_machine(machine), options);
          options.prune = false;
          const auto brute = search_grids(model, find_machine(machine), options);
          expect_same(pruned, brute, detail::concatenate(machine, " ", gpus, " ", to_string(objective), " top ", top));
          EXPECT_EQ(brute.evaluated, brute.candidates);
          saved += brute.evaluated - pruned.evaluated;
        }
  EXPECT_GT(saved, 0);
}

TEST(GridSearch, BoundsAreBelowEveryFormOfAGrid) {
  const auto model = preset("gpt-124m");
  int64_t grids = 0, sharp = 0;
  for (const char* name : {"perlmutter", "frontier"})
    for (const int64_t gpus : {8, 96})
      for (const Objective objective : {Objective::time, Objective::communication})
        for (const auto& [coefficients, blocks] :
             {std::pair{Coefficients::trainer, false}, {Coefficients::trainer, true}, {Coefficients::authors, false}}) {
          const Machine machine = find_machine(name);
          const SearchOptions options = {.gpus = gpus,
                                         .batch_tokens = 96 * 1024,
                                         .coefficients = coefficients,
                                         .objective = objective,
                                         .block_messages = blocks};
          const auto sizes = level_sizes(machine, gpus);
          for (const GridShape& grid : factorisations(gpus)) {
            GridPlanner planner(model, machine, options, grid, sizes);
            if (planner.rejection()) continue;
            AxisLinks least;
            for (const Axis axis : kAxes)
              least[static_cast<size_t>(axis)] =
                  least_link(grid[axis], sizes, machine, true, coefficients == Coefficients::trainer);
            planner.find_choices();
            int64_t evaluated = 0;
            const double rough = planner.rough_bound(least), bound = planner.bound(),
                         best = planner.best(/*prune=*/false, &evaluated).value;
            EXPECT_LE(rough, bound * (1 + 1e-12)) << name << " " << grid.to_string();
            EXPECT_LE(bound, best * (1 + 1e-12)) << name << " " << grid.to_string();
            EXPECT_EQ(evaluated, planner.candidates()) << name << " " << grid.to_string();
            ++grids;
            sharp += rough > 0.9 * bound ? 1 : 0;
          }
        }
  EXPECT_GT(sharp, grids / 2);
}

TEST(GridSearch, PrunedIsBruteForceWhereMemoryIsShort) {
  Machine small = find_machine("perlmutter");
  small.memory_gib = 1.2;
  SearchOptions options = {.gpus = 32, .batch_tokens = 96 * 1024, .top = 7};
  const auto pruned = search_grids(preset("gpt-124m"), small, options);
  options.prune = false;
  expect_same(pruned, search_grids(preset("gpt-124m"), small, options), "1.2 GiB");
  EXPECT_FALSE(pruned.layouts.empty());
}

TEST(GridSearch, SaysWhyEveryOtherGridLost) {
  const auto result = search_grids(preset("gpt80b"), find_machine("perlmutter"), {.gpus = 1024, .top = 1000});
  EXPECT_EQ(result.considered, 286);
  EXPECT_EQ(result.considered, static_cast<int64_t>(result.layouts.size() + result.rejections.size()));
  const auto why = [](const SearchResult& from, const GridShape& grid) {
    const auto found = std::ranges::find(from.rejections, grid, &Rejection::grid);
    return found == from.rejections.end() ? Rejection{} : *found;
  };
  const Rejection impossible = why(result, {1, 1, 1, 1024});  // has the least communication of all
  EXPECT_EQ(impossible.reason, "memory");
  EXPECT_GT(impossible.bytes_over, int64_t{1} << 40);  // 18 bytes per weight
  EXPECT_EQ(why(result, {64, 1, 16, 1}).reason, "heads % x");
  const auto odd =
      search_grids(preset("gpt80b"), find_machine("perlmutter"), {.gpus = 1024, .batch_tokens = 2048 * 512});
  EXPECT_EQ(why(odd, {1, 1, 1024, 1}).reason, "batch % (z data)");
}

TEST(GridSearch, KeepsToTheBoundsThatAreAskedFor) {
  const auto machine = find_machine("perlmutter");
  SearchOptions options = {.gpus = 64, .fixed = {0, 2, 0, 0}, .min_tensor = 8, .max_tensor = 16, .top = 100};
  const auto result = search_grids(preset("gpt5b"), machine, options);
  EXPECT_EQ(result.considered, 3 + 4);  // x * z = 4 or 8
  for (const PlannedLayout& layout : result.layouts) {
    EXPECT_EQ(layout.grid.y, 2);
    EXPECT_GE(layout.grid.x * layout.grid.y * layout.grid.z, 8);
    EXPECT_LE(layout.grid.x * layout.grid.y * layout.grid.z, 16);
  }
  options.micro_batch = 4;
  options.checkpointing = Checkpointing::on;
  for (const PlannedLayout& layout : search_grids(preset("gpt5b"), machine, options).layouts) {
    EXPECT_EQ(layout.micro_batch, 4);
    EXPECT_TRUE(layout.checkpoint());
  }
}

TEST(GridSearch, NeverPlansMoreMemoryThanThereIs) {
  const auto machine = find_machine("perlmutter");
  const auto result = search_grids(preset("gpt20b"), machine, {.gpus = 64, .top = 1000});
  EXPECT_FALSE(result.layouts.empty());
  for (const PlannedLayout& layout : result.layouts)
    EXPECT_LE(static_cast<double>(layout.memory_bytes()), 0.92 * machine.memory_bytes());
}

TEST(GridSearch, NamesTheNearestCountsThatFit) {
  const auto machine = find_machine("perlmutter");
  const auto model = preset("gpt-124m");
  SearchOptions options = {.gpus = 44, .batch_tokens = 64 * 1024};
  EXPECT_TRUE(search_grids(model, machine, options).layouts.empty());  // 11 divides neither heads, hidden nor the batch
  EXPECT_EQ(nearest_gpu_counts(model, machine, options, 44), (std::vector<int64_t>{36, 48}));
}

// The first count on each side for which the search finds a grid.
std::vector<int64_t> counts_by_search(const NetworkModel& model, const Machine& machine, SearchOptions options) {
  const int64_t gpus = options.gpus;
  std::vector<int64_t> counts;
  for (const int64_t step : {-1, 1})
    for (options.gpus = gpus + step; options.gpus >= 1 && options.gpus < 2 * gpus + 128; options.gpus += step) {
      if (!fills_levels(machine, options.gpus)) continue;
      const SearchResult found = search_grids(model, machine, options);
      const auto large = [](const Rejection& rejection) { return rejection.reason == "memory"; };
      if (found.layouts.empty() && std::ranges::none_of(found.rejections, large)) continue;
      counts.push_back(options.gpus);
      break;
    }
  return counts;
}

TEST(GridSearch, TheNearestCountsAreThoseThatTheSearchFinds) {
  Machine machine = find_machine("perlmutter");
  std::set<std::vector<int64_t>> all;
  for (const int64_t node : {1, 4, 6}) {
    machine.levels[0].size = node;
    for (const int64_t gpus : {2, 30, 44, 77})
      for (const int64_t samples : {1, 5, 12, 64})
        for (const int64_t micro_batch : {0, 2})
          for (const int context : {1, 4})
            for (const int y : {0, 3}) {
              const SearchOptions options = {.gpus = gpus,
                                             .batch_tokens = samples * 1024,
                                             .fixed = {0, y, 0, 0},
                                             .max_tensor = 24,
                                             .micro_batch = micro_batch,
                                             .context = {.ranks = context},
                                             .top = 1};
              const auto model = preset("gpt-124m");
              const auto counts = nearest_gpu_counts(model, machine, options, gpus);
              EXPECT_EQ(counts, counts_by_search(model, machine, options))
                  << gpus << " GPUs in nodes of " << node << ", " << samples << " samples, micro-batch " << micro_batch
                  << ", context " << context << ", y " << y;
              all.insert(counts);
            }
  }
  EXPECT_GT(all.size(), 25U);
}

TEST(GridSearch, ADividedContextNeedsFewerSequencesThanRanks) {
  const auto machine = find_machine("dgx-a100");
  const auto model = preset("gpt5b");
  const SearchOptions options = {.gpus = 32, .batch_tokens = 4 * 2048, .context = {.ranks = 8}, .top = 100};
  EXPECT_TRUE(
      search_grids(model, machine, {.gpus = 32, .batch_tokens = 4 * 2048, .fixed = {1, 1, 0, 0}}).layouts.empty());
  const auto found = search_grids(model, machine, options);
  ASSERT_FALSE(found.layouts.empty());
  for (const PlannedLayout& layout : found.layouts) {
    const GridShape& grid = layout.grid;
    EXPECT_EQ(grid.z % 8, 0) << grid.to_string();
    EXPECT_EQ(layout.micro_batch * layout.micro_batches * grid.z * grid.data, 4 * 8) << grid.to_string();
    EXPECT_GT(layout.time.communication.context, 0);
  }
  for (const Rejection& rejection : found.rejections)
    if (rejection.grid == GridShape{.x = 8, .z = 4}) {
      EXPECT_EQ(rejection.reason, "z % context");
    }
  SearchOptions all = options;
  all.prune = false;
  const auto same = search_grids(model, machine, all);
  ASSERT_EQ(same.layouts.size(), found.layouts.size());
  for (size_t i = 0; i < same.layouts.size(); ++i) EXPECT_EQ(same.layouts[i].value, found.layouts[i].value);
  EXPECT_EQ(nearest_batches(model, machine, {.gpus = 32, .batch_tokens = 5 * 2048, .context = {.ranks = 8}}),
            (std::vector<int64_t>{4, 8}));
  EXPECT_THROW(search_grids(model, machine, {.gpus = 32, .context = {.ranks = 3}}), UserError);
  EXPECT_THROW(search_grids(model, machine, {.gpus = 32, .mode = BandwidthMode::aware, .context = {.ranks = 8}}),
               UserError);
  EXPECT_THROW(search_grids(model, machine, {.gpus = 32, .coefficients = Coefficients::paper, .context = {.ranks = 8}}),
               UserError);
  SearchOptions ordered = options;
  ordered.order = kDefaultOrder;
  const auto of_order = search_grids(model, machine, ordered);
  ASSERT_FALSE(of_order.layouts.empty());
  for (const PlannedLayout& layout : of_order.layouts) EXPECT_GT(layout.time.communication.context, 0);
  // Other programs put a context on data where no weights are sharded.
  SearchOptions other = options;
  other.fixed = {0, 0, 1, 0};
  EXPECT_TRUE(search_grids(model, machine, other).layouts.empty());
  other.context.over_data = true;
  const auto of_data = search_grids(model, machine, other);
  ASSERT_FALSE(of_data.layouts.empty());
  for (const PlannedLayout& layout : of_data.layouts) EXPECT_EQ(layout.grid.data % 8, 0) << layout.grid.to_string();
}

// Each grid with its best context, found by one search for each of them.
TEST(GridSearch, TheBestContextIsThatOfTheBestSearch) {
  const auto model = preset("gpt5b");  // sequences of 2048 tokens
  for (const char* name : {"dgx-a100", "perlmutter"}) {
    const auto machine = find_machine(name);
    SearchOptions options = {.gpus = 64, .batch_tokens = 16 * 2048, .top = 1000};
    std::map<std::array<int, 4>, std::pair<double, int64_t>> best;
    for (const int64_t context : {1, 2, 4, 8, 16, 32, 64}) {
      options.context.ranks = context;
      for (const PlannedLayout& layout : search_grids(model, machine, options).layouts) {
        EXPECT_EQ(layout.context.ranks, context);
        const GridShape& grid = layout.grid;
        auto& known = best.try_emplace({grid.x, grid.y, grid.z, grid.data}, layout.value, context).first->second;
        if (layout.value < known.first) known = {layout.value, context};
      }
    }
    options.context.ranks = kAutomaticContext;
    const SearchResult found = search_grids(model, machine, options);
    ASSERT_EQ(found.layouts.size(), best.size());
    std::set<int64_t> contexts;
    for (const PlannedLayout& layout : found.layouts) {
      const GridShape& grid = layout.grid;
      const auto& [value, context] = best.at({grid.x, grid.y, grid.z, grid.data});
      EXPECT_EQ(layout.value, value) << grid.to_string();
      EXPECT_EQ(layout.context.ranks, context) << grid.to_string();
      EXPECT_EQ(plan_grid(model, machine, options, grid).context.ranks, context) << grid.to_string();
      contexts.insert(context);
    }
    EXPECT_GT(contexts.size(), 2U) << name;
    EXPECT_EQ(found.considered, static_cast<int64_t>(found.layouts.size() + found.rejections.size()));
    SearchOptions all = options;
    all.prune = false;
    all.top = options.top = 3;
    expect_same(search_grids(model, machine, options), search_grids(model, machine, all), name);
  }
  // 15 sequences divide over no 16 ranks.
  const SearchOptions few = {.gpus = 16, .batch_tokens = 15 * 2048, .context = {.ranks = kAutomaticContext}};
  EXPECT_EQ(nearest_batches(model, find_machine("dgx-a100"), few), (std::vector<int64_t>{16}));
}

TEST(GridSearch, RefusesWhatNoGridCanMeet) {
  const auto machine = find_machine("perlmutter");
  const auto model = preset("gpt5b");
  EXPECT_THROW(search_grids(model, machine, {.gpus = 0}), UserError);
  EXPECT_THROW(search_grids(model, machine, {.gpus = int64_t{1} << 40}), UserError);
  EXPECT_THROW(search_grids(model, machine, {.gpus = 6}), UserError);
  EXPECT_THROW(search_grids(model, machine, {.gpus = 8, .batch_tokens = 2047}), UserError);
  EXPECT_THROW(search_grids(model, machine, {.gpus = 8, .min_tensor = 4, .max_tensor = 2}), UserError);
  EXPECT_THROW(plan_grid(model, machine, {}, {.data = 8}), UserError);
  Machine free_of_charge = machine;
  free_of_charge.dollars_per_gpu_hour = 0;
  EXPECT_THROW(search_grids(model, free_of_charge, {.gpus = 8, .objective = Objective::cost}), UserError);
}

}  // namespace
}  // namespace axonn
