#include "axonn/grid/reduction/reduction_program.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kTwoLevels = "reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7";

std::string refusal(auto&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.sentence();
  }
  return "no error";
}

ReductionProgram random_program(std::mt19937& random, int ranks) {
  ReductionProgram program;
  for (unsigned steps = random() % 5; steps > 0; --steps) {
    std::vector<int> order(static_cast<size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    if (random() % 2 == 0) std::ranges::shuffle(order, random);
    ReductionStep step = {.collective = kCollectives[random() % 5]};
    for (size_t at = 0; at + 2 <= order.size();) {
      const size_t size = std::min<size_t>(2 + random() % 6, order.size() - at);
      step.groups.emplace_back(order.begin() + static_cast<long>(at), order.begin() + static_cast<long>(at + size));
      at += size + random() % 3;
    }
    program.steps.push_back(std::move(step));
  }
  return program;
}

TEST(ReductionProgram, IsReadBackFromItsText) {
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) {
    const auto program = random_program(random, 2 + static_cast<int>(random() % 40));
    ASSERT_EQ(parse_reduction_program(program.to_string()), program) << program.to_string();
  }
  EXPECT_EQ(parse_reduction_program(kTwoLevels).to_string(), kTwoLevels);
}

TEST(ReductionProgram, WritesRunsShort) {
  std::vector<int> strided;
  for (int rank = 1; rank < 1024; rank += 4) strided.push_back(rank);
  const ReductionProgram program = {{{Collective::all_reduce, {strided, {0, 2, 3, 4, 5, 100, 99, 98}}}}};
  EXPECT_EQ(program.to_string(), "all-reduce:1-1021@4,0+2-5+100+99+98");
}

TEST(ReductionProgram, IsReadFromAFile) {
  EXPECT_EQ(
      parse_reduction_program("\nreduce-scatter: 0-3, 4-7\n all-reduce:0+4,1+5,2+6,3+7 \r\n\nall-gather:0-3,4-7\n")
          .to_string(),
      kTwoLevels);
  EXPECT_EQ(parse_reduction_program(" none\n"), ReductionProgram{});
  EXPECT_EQ(ReductionProgram{}.to_string(), "none");
}

TEST(ReductionProgram, SaysWhatIsWrongWithAText) {
  EXPECT_EQ(refusal([] { parse_reduction_program("all-reduse:0+1"); }),
            "unknown collective 'all-reduse'; did you mean 'all-reduce'?");
  EXPECT_EQ(refusal([] { parse_reduction_program("sum:0+1"); }),
            "unknown collective 'sum'; the collectives are all-reduce, reduce-scatter, all-gather, reduce, broadcast");
  for (const char* step :
       {"", "all-reduce", "all-reduce:", "all-reduce:0+", "all-reduce:0++1", "all-reduce:0,,1", "all-reduce:a",
        "all-reduce:0+-1", "all-reduce:3-1", "all-reduce:0-3@2", "all-reduce:0@2", "all-reduce:0-4@0",
        "all-reduce:0-2147483647", "all-reduce:0+1 2", "all-reduce:99999999999", "all-reduce:0@2-4"})
    EXPECT_NE(refusal([&] { parse_reduction_program(step); }).find("step '" + std::string(step) + "' has"),
              std::string::npos)
        << step;
  EXPECT_NE(refusal([] { parse_reduction_program("all-reduce:0+1//all-reduce:0+1"); }), "no error");
}

TEST(ReductionProgram, IsCheckedAgainstTheRanks) {
  const auto check = [](const char* text, int ranks) {
    return refusal([&] { check_reduction_program(parse_reduction_program(text), ranks); });
  };
  EXPECT_EQ(check(kTwoLevels, 8), "no error");
  EXPECT_EQ(check(kTwoLevels, 7), "step 1 (reduce-scatter) names rank 7, this job has 7");
  EXPECT_EQ(check("all-reduce:0+1/reduce:2+3,1+2", 4), "step 2 (reduce) has rank 2 twice");
  EXPECT_EQ(check("broadcast:1+1", 4), "step 1 (broadcast) has rank 1 twice");
  EXPECT_EQ(check("all-gather:0+1,2", 4), "step 1 (all-gather) has a group of 1 ranks, need at least 2");
  EXPECT_EQ(refusal([] { check_reduction_program({{{Collective::reduce, {}}}}, 4); }), "step 1 (reduce) has no groups");
  EXPECT_EQ(refusal([] { check_reduction_program({{{Collective::reduce, {{-1, 0}}}}}, 4); }),
            "step 1 (reduce) names rank -1, this job has 4");
}

TEST(HeldChunks, FollowTheDataThroughTwoLevels) {
  const auto flow = held_chunks(parse_reduction_program(kTwoLevels), 8);
  EXPECT_EQ(flow.chunks, 4);
  ASSERT_EQ(flow.held.size(), 4u);
  for (int rank = 0; rank < 8; ++rank) {
    const auto r = static_cast<size_t>(rank);
    EXPECT_EQ(flow.held[0][r], (std::vector<Range>{{0, 4}}));
    EXPECT_EQ(flow.held[1][r], (std::vector<Range>{{rank % 4, rank % 4 + 1}}));
    EXPECT_EQ(flow.held[2][r], flow.held[1][r]);
    EXPECT_EQ(flow.held[3][r], (std::vector<Range>{{0, 4}}));
  }
  EXPECT_EQ(flow.count(1, 5), 1);
}

TEST(HeldChunks, OfScattersOfScattersAreCutAgain) {
  const auto flow =
      held_chunks(parse_reduction_program("reduce-scatter:0-2,3-5/reduce-scatter:0+3,1+4,2+5/all-gather:0-2,3-5"), 6);
  EXPECT_EQ(flow.chunks, 6);
  EXPECT_EQ(flow.held[1][4], (std::vector<Range>{{2, 4}}));
  EXPECT_EQ(flow.held[2][4], (std::vector<Range>{{3, 4}}));
  EXPECT_EQ(flow.held[3][4], (std::vector<Range>{{1, 2}, {3, 4}, {5, 6}}));  // ranks 3, 4, 5 have every second chunk
}

TEST(HeldShares, AreTheChunksOfAllParts) {
  for (const char* text : {kTwoLevels, "reduce-scatter:0-2,3-5/reduce-scatter:0+3,1+4,2+5/all-gather:0-2,3-5",
                           "reduce:1+0,3+4/all-reduce:1+3/broadcast:1+0,3+4"}) {
    const auto program = parse_reduction_program(text);
    const auto flow = held_chunks(program, 8);
    const auto shares = held_shares(program, 8);
    ASSERT_EQ(shares.size(), flow.held.size());
    for (size_t step = 0; step < shares.size(); ++step)
      for (int rank = 0; rank < 8; ++rank)
        EXPECT_DOUBLE_EQ(shares[step][static_cast<size_t>(rank)] * static_cast<double>(flow.chunks),
                         static_cast<double>(flow.count(step, rank)));
  }
}

// After both scatters and the gather over the outer level, every rank holds 1024 parts that do not
// touch: a list per rank would be 4096 x 1024 ranges.
TEST(HeldShares, OfInterleavedGathersAreAsManyAsTheRanks) {
  ReductionStep outer = {.collective = Collective::reduce_scatter}, inner = outer;
  for (int i = 0; i < 4; ++i) {
    auto& group = outer.groups.emplace_back();
    for (int j = 0; j < 1024; ++j) group.push_back(4 * j + i);
  }
  for (int j = 0; j < 1024; ++j) inner.groups.push_back({4 * j, 4 * j + 1, 4 * j + 2, 4 * j + 3});
  ReductionProgram program = {{outer, inner, outer, inner}};
  program.steps[2].collective = program.steps[3].collective = Collective::all_gather;
  const auto shares = held_shares(program, 4096);
  EXPECT_DOUBLE_EQ(shares[2][7], 1.0 / 4096);
  EXPECT_DOUBLE_EQ(shares[3][7], 1.0 / 4);
  EXPECT_DOUBLE_EQ(shares[4][7], 1);
}

TEST(HeldChunks, KnowRootsAndRanksThatTakeNoPart) {
  const auto flow = held_chunks(parse_reduction_program("reduce:1+0,3+4/all-reduce:1+3/broadcast:1+0,3+4"), 6);
  EXPECT_EQ(flow.chunks, 1);
  EXPECT_TRUE(flow.held[1][0].empty());
  EXPECT_EQ(flow.count(1, 1), 1);
  EXPECT_TRUE(flow.held[2][4].empty());
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(flow.count(3, rank), 1);
}

TEST(HeldChunks, RefuseWhatCannotRun) {
  const auto refuse = [](const char* text) { return refusal([&] { held_chunks(parse_reduction_program(text), 4); }); };
  EXPECT_EQ(refuse("reduce-scatter:0-3/all-reduce:1+2"),
            "step 2 (all-reduce): ranks 1 and 2 hold different chunks, need the same");
  EXPECT_EQ(refuse("reduce:0+1/reduce-scatter:1+0"), "step 2 (reduce-scatter): ranks 1 and 0 bring no data");
  EXPECT_EQ(refuse("reduce:0+1/reduce-scatter:0+1"),
            "step 2 (reduce-scatter): ranks 0 and 1 hold different chunks, need the same");
  EXPECT_EQ(refuse("all-gather:0+1"),
            "step 1 (all-gather): ranks 0 and 1 and those between them hold a chunk twice, need different ones");
  EXPECT_EQ(refuse("reduce:0+1/all-gather:0+1"),
            "step 2 (all-gather): ranks 0 and 1 hold different numbers of chunks, need as many");
  EXPECT_EQ(refuse("reduce:0+1,2+3/all-gather:1+3"), "step 2 (all-gather): ranks 1 and 3 bring no data");
  EXPECT_EQ(refuse("reduce-scatter:0+1/broadcast:0+1"),
            "step 2 (broadcast): ranks 0 and 1 hold different chunks, the root must have all of them");
  EXPECT_EQ(refuse("all-reduce:0+4"), "step 1 (all-reduce) names rank 4, this job has 4");
}

}  // namespace
}  // namespace axonn
