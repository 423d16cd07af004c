// The measured choice of an update's schedule: one on all ranks, kept in checkpoints and on disk.
#include "axonn/optim/update_choice.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/overlap/execute/rank_tuning.hpp"
#include "optim/optimizer_training.hpp"
#include "support/rank_test.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using coconet::RunSettings;
using coconet::SchedulePlan;
using test::OptimizerTraining;

bool is_first() { return test_environment().rank() == 0; }

// A clock that a test sets: on each rank, each schedule takes a time of its own. Nothing runs.
struct FakeClock {
  double fuse = 1, rs_opt_ag = 1;
  int64_t fast_segment = -1;  // with it, either takes half of its time
  double now = 0;
  int prepared = 0;

  tune::TunerHooks hooks() {
    tune::TunerHooks hooks = rank_hooks(test_environment().world());
    hooks.clock = [this] { return now; };
    hooks.prepare = [this](const SchedulePlan& plan, const RunSettings& settings) {
      ++prepared;
      const bool fused = std::ranges::any_of(plan.steps(), [](const coconet::PlanStep& step) {
        return step.kind == coconet::StepKind::fused && step.mover;
      });
      const double share = settings.segment_bytes == fast_segment ? 0.5 : 1;
      return [this, seconds = share * (fused ? fuse : rs_opt_ag)] { now += seconds; };
    };
    return hooks;
  }
};

class UpdateChoiceTest : public testing::Test {
 protected:
  UpdateChoice choose(UpdateTuning tuning = {}, OptimizerSettings settings = {}) {
    clock_.prepared = 0;
    tuning.hooks = clock_.hooks();
    tuning.most_seconds = 1e9;
    return choose_update(run_.context(), run_.parameters(), settings, tuning);
  }
  // The lines of rank 0's log meanwhile.
  std::string words_of_choice(const UpdateTuning& tuning) {
    testing::internal::CaptureStderr();
    choose(tuning);
    return testing::internal::GetCapturedStderr();
  }
  bool measured() const { return clock_.prepared > 0; }

  OptimizerTraining run_{{.data = test_environment().ranks()}, at::kFloat, {}};
  FakeClock clock_;
};

TEST_F(UpdateChoiceTest, IsTheFastestScheduleOfTheSlowestRank) {
  clock_.fuse = 1;
  clock_.rs_opt_ag = 2;
  EXPECT_EQ(choose().schedule, UpdateSchedule::fuse);
  EXPECT_TRUE(measured());
  // Only the last rank finds fuse slow.
  if (test_environment().rank() == test_environment().ranks() - 1) clock_.fuse = 4;
  EXPECT_EQ(choose().schedule, UpdateSchedule::rs_opt_ag);
  // Less than 3% is not worth it.
  clock_.fuse = 2.04;
  EXPECT_EQ(choose().schedule, UpdateSchedule::fuse);
}

// All ranks run each of them together.
TEST_F(UpdateChoiceTest, TriesTheSameThreadsOnRanksWithOtherNumbersOfThem) {
  const int before = at::get_num_threads();
  at::set_num_threads(is_first() ? 1 : 4);
  const coconet::RunAxes axes = axes_to_try(test_environment().world());
  at::set_num_threads(before);
  EXPECT_EQ(axes.threads, (std::vector<int>{2, 1}));
}

// Every rank's messages must have one size: the slowest rank decides for all.
TEST_F(UpdateChoiceTest, HasTheFastestSegmentOnAllRanks) {
  clock_.fast_segment = 16 << 10;
  const UpdateChoice choice = choose();
  EXPECT_EQ(choice, (UpdateChoice{UpdateSchedule::fuse, {.segment_bytes = 16 << 10}}));
  EXPECT_EQ(choice.to_string(), "fuse segment=16384");
  if (is_first()) clock_.fast_segment = -1;
  EXPECT_EQ(choose().run, RunSettings());
}

TEST_F(UpdateChoiceTest, GivesTheSameBitsWithEverySegment) {
  for (const UpdateSchedule schedule : {UpdateSchedule::rs_opt_ag, UpdateSchedule::fuse}) {
    std::map<std::string, at::Tensor> first;
    for (const int64_t segment : {int64_t{0}, kSmallestSegment, kLargestSegment}) {
      OptimizerTraining run({.data = test_environment().ranks()}, at::kFloat,
                            {.schedule = schedule, .run = {.segment_bytes = segment}});
      for (int64_t step = 0; step < 3; ++step) run.step(step);
      const auto parts = run.own_parts();
      if (first.empty()) first = parts;
      ASSERT_EQ(parts.size(), first.size());
      for (const auto& [name, part] : parts) EXPECT_TRUE(part.equal(first.at(name))) << name << " in " << segment;
    }
  }
}

TEST_F(UpdateChoiceTest, HandsTheSegmentToTheCollectives) {
  for (const UpdateSchedule schedule : {UpdateSchedule::rs_opt_ag, UpdateSchedule::fuse}) {
    OptimizerTraining run({.data = test_environment().ranks()}, at::kFloat,
                          {.schedule = schedule, .run = {.segment_bytes = 1}});
    EXPECT_USER_ERROR(run.step(0), "a segment has 8192 to 1048576 bytes, got 1");
  }
}

TEST_F(UpdateChoiceTest, IsOneOnAllRanksWhenTheUpdateRuns) {
  const Arena& arena = run_.parameters().arena();
  Context& context = run_.context();
  const at::Tensor weights = arena.weights().clone();
  const UpdateChoice choice = choose_update(context, run_.parameters(), {}, {.most_seconds = 0.2});
  const auto schedule = static_cast<int64_t>(choice.schedule);
  const at::Tensor sums = at::tensor({schedule, schedule * schedule});
  test_environment().world().all_reduce(sums).wait();
  const int64_t ranks = test_environment().ranks();
  EXPECT_EQ(sums[0].item<int64_t>() * sums[0].item<int64_t>(), ranks * sums[1].item<int64_t>());
  EXPECT_NE(choice.schedule, UpdateSchedule::ar_opt);
  EXPECT_TRUE(at::equal(weights, arena.weights()));  // it was measured in other memory
  run_.step(0);                                      // and the network still trains
}

TEST_F(UpdateChoiceTest, IsNotMeasuredWhereThereIsNone) {
  EXPECT_EQ(choose({}, {.schedule = UpdateSchedule::fuse}).schedule, UpdateSchedule::fuse);
  EXPECT_EQ(choose({}, {.schedule = UpdateSchedule::ar_opt}).schedule, UpdateSchedule::ar_opt);
  EXPECT_EQ(choose({}, {.clips = false}).schedule, UpdateSchedule::rs_opt_ag);
  EXPECT_FALSE(measured());
  OptimizerTraining whole({.x = test_environment().ranks()}, at::kFloat, {});
  EXPECT_EQ(choose_update(whole.context(), whole.parameters(), {}, {.hooks = clock_.hooks()}),
            UpdateChoice{UpdateSchedule::ar_opt});
  EXPECT_FALSE(measured());
}

TEST_F(UpdateChoiceTest, IsTheCheckpointsWhereItHasOne) {
  clock_.rs_opt_ag = 2;
  EXPECT_EQ(choose({.known = "rs-opt-ag threads=3"}), (UpdateChoice{UpdateSchedule::rs_opt_ag, {3}}));
  EXPECT_EQ(choose({.known = "fuse segment=65536"}).run.segment_bytes, 65536);
  EXPECT_FALSE(measured());
  EXPECT_EQ(choose({.known = "ar-opt"}).schedule, UpdateSchedule::fuse);  // from a grid that shared no update
  EXPECT_TRUE(measured());
  EXPECT_USER_ERROR(choose({.known = "quick"}), "'quick'");
  EXPECT_USER_ERROR(UpdateChoice::parse("fuse threads=x"), "'threads=x' must be settings of a run");
  EXPECT_USER_ERROR(UpdateChoice::parse("fuse segment=9 threads=1"), "'segment=9 threads=1' must be settings of a run");
  for (const UpdateChoice& choice : {UpdateChoice{UpdateSchedule::fuse}, UpdateChoice{UpdateSchedule::ar_opt, {2}},
                                     UpdateChoice{UpdateSchedule::fuse, {2, 9000, 7}}})
    EXPECT_EQ(UpdateChoice::parse(choice.to_string()), choice);
}

TEST_F(UpdateChoiceTest, IsReadFromDiskByRank0) {
  const test::Scratch scratch;
  const UpdateTuning tuning{.folder = scratch / "choices"};
  clock_.fuse = 2;
  EXPECT_EQ(choose(tuning).schedule, UpdateSchedule::rs_opt_ag);
  EXPECT_TRUE(measured());
  clock_.rs_opt_ag = 9;  // it would choose fuse now
  EXPECT_EQ(choose(tuning).schedule, UpdateSchedule::rs_opt_ag);
  EXPECT_FALSE(measured());
  EXPECT_EQ(std::filesystem::exists(tuning.folder), is_first());
  EXPECT_EQ(choose(tuning, {.ema = 0.9}).schedule, UpdateSchedule::fuse);  // another program
}

TEST_F(UpdateChoiceTest, IsRenewedIfItsFileIsOfAnotherMachineOrCorrupt) {
  const test::Scratch scratch;
  UpdateTuning tuning{.folder = scratch / "choices", .local_ranks = 77};
  choose(tuning);
  tuning.local_ranks = 1;
  std::string words = words_of_choice(tuning);
  EXPECT_TRUE(measured());
  if (is_first()) {
    EXPECT_NE(words.find("is of another machine"), std::string::npos) << words;
  }
  EXPECT_EQ(std::ranges::count(words, '\n'), is_first() ? 1 : 0) << words;
  EXPECT_EQ(words_of_choice(tuning), "");
  EXPECT_FALSE(measured());
  std::string file;
  if (is_first()) {
    file = std::filesystem::directory_iterator(tuning.folder)->path().string();
    std::ofstream(file, std::ios::app) << "more";
  }
  words = words_of_choice(tuning);
  EXPECT_TRUE(measured());
  EXPECT_NE(words.find(is_first() ? file + " is corrupt" : ""), std::string::npos) << words;
  EXPECT_EQ(words_of_choice(tuning), "");
}

TEST_F(UpdateChoiceTest, SaysOnAllRanksWhereItCannotBeKept) {
  const test::Scratch scratch;
  const UpdateTuning tuning{.folder = scratch.file("a file", "") + "/choices"};
  if (is_first()) {
    EXPECT_USER_ERROR(choose(tuning), "cannot write the tuner's choice to", "name another folder");
  } else {
    EXPECT_ANY_THROW(choose(tuning));
  }
}

}  // namespace
}  // namespace axonn
