// Synthesised reduction programs on real ranks give exactly the plain sum.
#include "axonn/comm/programs/reduction_runner.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/perfmodel/reduction/reduction_synthesis.hpp"
#include "support/rank_test.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

// Sixteenths below 16: sums of 16 of them are exact in fp32 in any order.
at::Tensor dyadic(int rank, int64_t elements, int64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(1000 * seed + rank));
  return at::randint(-255, 256, {elements}, generator, at::TensorOptions().dtype(at::kFloat)) / 16;
}

at::Tensor sum_over(const std::vector<int>& group, int64_t elements, int64_t seed) {
  at::Tensor sum = at::zeros({elements});
  for (const int rank : group) sum += dyadic(rank, elements, seed);
  return sum;
}

std::vector<SynthesisHierarchy> hierarchies(int ranks) {
  std::vector<SynthesisHierarchy> result;
  const auto add = [&](const char* matrix, std::vector<int> axes) {
    result.push_back(synthesis_hierarchy(parse_parallelism_matrix(matrix), axes));
  };
  if (ranks == 8) {
    add("[[2 4]]", {0});
    add("[[2 2 2]]", {0});
    add("[[2 2] [1 2]]", {0});
    add("[[1 2 2] [2 1 1]]", {0});
  } else {
    add("[[4 4]]", {0});
    add("[[2 2 4]]", {0});
    add("[[2 4] [1 2]]", {0});
    add("[[2 2] [2 1] [1 2]]", {0, 2});
  }
  return result;
}

void expect_exact_sums(const SynthesisHierarchy& hierarchy, const SynthesisOptions& options, int programs,
                       std::mt19937& random) {
  const int rank = test_environment().rank(), ranks = test_environment().ranks();
  const auto all = synthesize(hierarchy.sizes, options);
  const auto group = std::ranges::find_if(hierarchy.groups,
                                          [&](const auto& members) { return std::ranges::count(members, rank) > 0; });
  for (int i = 0; i < programs; ++i) {
    const ReductionProgram program = lower(all[random() % all.size()], hierarchy);
    const int64_t elements = std::array{int64_t{1}, int64_t{64}, int64_t{1003}}[random() % 3],
                  seed = static_cast<int64_t>(random() % 1000);
    ReductionRunner runner(test_environment(), program, rank, ranks);
    const at::Tensor data = dyadic(rank, elements, seed), expected = sum_over(*group, elements, seed);
    runner.run(data).wait();
    int64_t held = 0;
    for (const Range& range : runner.result(elements)) {
      EXPECT_TRUE(at::equal(data.narrow(0, range.begin, range.size()), expected.narrow(0, range.begin, range.size())))
          << program.to_string() << ", " << elements << " elements";
      held += range.size();
    }
    EXPECT_TRUE(options.goal != ReductionGoal::all_reduce || held == elements) << program.to_string();
  }
}

TEST(SynthesisedPrograms, GiveExactlyThePlainSum) {
  std::mt19937 random(1);  // the same programs on every rank
  for (const SynthesisHierarchy& hierarchy : hierarchies(test_environment().ranks()))
    for (const SynthesisLanguage language : {SynthesisLanguage::paper, SynthesisLanguage::full})
      expect_exact_sums(hierarchy, {.language = language, .length_limit = 4}, 25, random);
}

TEST(SynthesisedPrograms, LeaveEveryMemberItsShardWhenThatIsTheGoal) {
  std::mt19937 random(2);
  for (const SynthesisHierarchy& hierarchy : hierarchies(test_environment().ranks()))
    expect_exact_sums(hierarchy, {.goal = ReductionGoal::reduce_scatter, .length_limit = 4}, 5, random);
}

// Some members' shards are empty, as with small tensors.
TEST(ReductionRunner, ScattersIntoShardsOfAnySize) {
  std::mt19937 random(3);
  const int rank = test_environment().rank(), ranks = test_environment().ranks();
  for (const SynthesisHierarchy& hierarchy : hierarchies(ranks)) {
    const auto group = *std::ranges::find_if(
        hierarchy.groups, [&](const auto& members) { return std::ranges::count(members, rank) > 0; });
    const auto place = static_cast<size_t>(std::ranges::find(group, rank) - group.begin());
    int scattered = 0;
    for (const auto& instructions : synthesize(hierarchy.sizes, {.goal = ReductionGoal::scatter, .length_limit = 3})) {
      const ReductionProgram program = lower(instructions, hierarchy);
      std::optional<ReductionRunner> runner;
      try {
        runner.emplace(test_environment(), program, rank, ranks,
                       ReductionRunnerOptions{.scatter_groups = hierarchy.groups});
      } catch (const UserError&) {
        continue;  // another step is the last
      }
      ++scattered;
      for (const int64_t most : {1, 64, 1003}) {
        std::vector<int64_t> counts;
        for (size_t i = 0; i < group.size(); ++i)
          counts.push_back(static_cast<int64_t>(random() % 3 == 0 ? 0 : random() % (most + 1)));
        const int64_t elements = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        const int64_t begin =
            std::accumulate(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(place), int64_t{0});
        const at::Tensor shard = at::full({counts[place]}, -1.0F);
        runner->reduce_scatter(dyadic(rank, elements, most), shard, counts).wait();
        EXPECT_TRUE(at::equal(shard, sum_over(group, elements, most).narrow(0, begin, counts[place])))
            << program.to_string() << ", " << counts;
      }
    }
    EXPECT_GE(scattered, 2);
  }
}

// Eight buffers at once. A broadcast of another group still fills each buffer when its sum is
// requested.
TEST(ReductionRunner, StartsAfterWhatItIsToldToAndDoesNotBlock) {
  const int ranks = test_environment().ranks();
  const SynthesisHierarchy hierarchy =
      synthesis_hierarchy(parse_parallelism_matrix(ranks == 8 ? "[[2 4]]" : "[[4 4]]"), std::vector{0});
  for (const InstructionProgram& program : synthesize(hierarchy.sizes, {.length_limit = 3})) {
    ReductionRunner runner(test_environment(), lower(program, hierarchy), test_environment().rank(), ranks);
    std::vector<at::Tensor> data;
    std::vector<Request> sums;
    for (int64_t i = 0; i < 8; ++i) {
      data.push_back(dyadic(test_environment().rank(), 1003, i));
      const Request filled = test_environment().world().broadcast(data.back(), 0);
      sums.push_back(runner.run(data.back(), {.priority = Priority::low, .after = {&filled, 1}}));
    }
    for (int64_t i = 7; i >= 0; --i) {
      sums[static_cast<size_t>(i)].wait();
      EXPECT_TRUE(at::equal(data[static_cast<size_t>(i)], dyadic(0, 1003, i) * ranks))
          << lower(program, hierarchy).to_string();
    }
  }
}

TEST(ReductionRunner, RefusesProgramsThatDoNotFit) {
  const int ranks = test_environment().ranks();
  EXPECT_USER_ERROR(ReductionRunner(test_environment(), parse_reduction_program("all-reduce:0+99"), 0, ranks), "99");
  EXPECT_USER_ERROR(ReductionRunner(test_environment(), {}, ranks, ranks), "is not among the");
  EXPECT_USER_ERROR(ReductionRunner(test_environment(), {}, 0, ranks).run(at::zeros({2, 2})), "flat contiguous");
}

}  // namespace
}  // namespace axonn
