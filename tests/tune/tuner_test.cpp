// The tuner: all schedules, and under an injected clock the fastest of them.
#include "axonn/tune/tuner.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "axonn/coconet/text/program_text.hpp"
#include "axonn/coconet/oracle/oracle.hpp"
#include "tune/schedule_key.hpp"
#include "coconet/support/figures.hpp"
#include "tune/sgd_program.hpp"
#include "support/user_error.hpp"

namespace axonn::tune {
namespace {

using namespace coconet;

using State = TunedSchedule::State;
using Kind = TransformationKind;

const char* const kMomentum = R"(program momentum
size N
tensor g fp32 [N] local
tensor w fp32 [N] replicated
tensor m fp32 [N] replicated
scalar lr = 0.1
sum = all_reduce(+, g)
m1 = update(m, 0.9 * m + sum)
w1 = update(w, w - lr * m1)
return w1
)";

// As after a row-parallel layer.
const char* const kRow = R"(program row
size B, H
tensor x fp32 [B, H] local
tensor r fp32 [B, H] replicated
sum = all_reduce(+, x)
y = dropout(sum, 0.1) + r
return y
)";

// A product and its sum; rank by rank, one can be computed while the other moves.
const char* const kLayer = R"(program layer
size B, K, H
tensor x fp32 [B, K] local
tensor w fp32 [K, H] local
tensor r fp32 [B, H] replicated
product = matmul(x, w)
sum = all_reduce(+, product)
y = sum + r
return y
)";

// The summands are computed, too.
const char* const kScaled = R"(program scaled
size N
tensor g fp32 [N] local
tensor w fp32 [N] replicated
scaled = 0.5 * g
sum = all_reduce(+, scaled)
w1 = update(w, w - sum)
return w1
)";

Program layer() { return parse_program(kLayer, "layer"); }
Program row() { return parse_program(kRow, "row"); }

// ---- All schedules, by every transformation with every choice of operands. As in the tuner, each
// keeps slices of what it can, or whole tensors for an overlap, and computes nothing that nobody
// reads. ----

class Listing {
 public:
  explicit Listing(const Program& program) {
    add(program);
    while (!ahead_.empty()) {
      const Program from = ahead_.front();
      ahead_.pop_front();
      expand(from);
    }
  }
  // A program of each plan that the executor can run.
  const std::map<std::string, Program>& runs() const { return runs_; }

  double least(const std::function<double(const Program&)>& seconds_of) const {
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [key, program] : runs_) least = std::min(least, seconds_of(program));
    return least;
  }

 private:
  static Program simplified(Program program, bool slices) {
    for (bool changed = true; changed;) {
      changed = false;
      const ProgramParts parts = program.parts();
      const auto attempt = [&](Kind kind, const std::string& name) {
        try {
          program = apply(program, {kind, {name}});
          changed = true;
        } catch (const UserError&) {
        }
      };
      for (const Declaration& declaration : parts.declarations)
        if (slices) attempt(Kind::as_slice, declaration.name);
      for (const Statement& statement : parts.statements) attempt(Kind::dead, statement.name);
    }
    return program;
  }

  void add(const Program& before) {
    add_simplified(simplified(before, true));
    if (before.find_statement("product") != nullptr || before.find_statement("scaled") != nullptr)
      add_simplified(simplified(before, false));
  }
  void add_simplified(const Program& program) {
    if (!known_.insert(canonical_text(program)).second) return;
    ahead_.push_back(program);
    if (const std::string key = run_key(program); !key.empty()) runs_.emplace(key, program);
  }
  void attempt(const Program& from, const Transformation& move) {
    try {
      add(apply(from, move));
    } catch (const UserError&) {
    }
  }
  void expand(const Program& from) {
    std::vector<std::string> names;
    for (const Statement& statement : from.statements()) names.push_back(statement.name);
    for (const Section& section : from.sections()) names.push_back(section.name);
    for (const std::string& name : names) {
      for (const SplitPolicy policy : {SplitPolicy::reduce_scatter, SplitPolicy::reduce})
        attempt(from, {.kind = Kind::split, .names = {name}, .policy = policy});
      attempt(from, {Kind::join, {name}});
    }
    for (const std::string& producer : names)
      for (const std::string& consumer : names)
        attempt(from, {Kind::overlap, {"both" + std::to_string(from.sections().size()), producer, consumer}});
    for (size_t set = 1; set < size_t{1} << names.size(); ++set) {
      std::vector<std::string> members;
      for (size_t i = 0; i < names.size(); ++i)
        if ((set >> i & 1) != 0) members.push_back(names[i]);
      std::vector<std::string> fused = {"f" + std::to_string(from.sections().size())};
      while (from.find_section(fused[0]) != nullptr) fused[0] += "x";
      fused.insert(fused.end(), members.begin(), members.end());
      if (members.size() > 1) attempt(from, {Kind::fuse, fused});
      for (const std::string& name : names) {
        const Statement* gather = from.find_statement(name);
        if (gather == nullptr || std::ranges::count(members, name) > 0) continue;
        std::vector<std::string> moved = {name};
        moved.insert(moved.end(), members.begin(), members.end());
        attempt(from, {Kind::reorder, moved});
      }
    }
  }

  std::deque<Program> ahead_;
  std::set<std::string> known_;
  std::map<std::string, Program> runs_;
};

// ---- A clock that a test sets: each plan takes a time of its own ----

struct FakeClock {
  std::function<double(const Program&)> seconds_of;
  std::function<double(const Program&, const RunSettings&)> share_of = {};  // a factor for these seconds
  double now = 0;
  int prepared = 0;

  TunerHooks hooks() {
    return {.prepare =
                [this](const SchedulePlan& plan, const RunSettings& settings) {
                  ++prepared;
                  const double share = share_of ? share_of(plan.program(), settings) : 1;
                  return [this, seconds = share * seconds_of(plan.program())] { now += seconds; };
                },
            .clock = [this] { return now; },
            .agreed = [](double number) { return number; }};
  }
};

TunerOptions options_for(int ranks) {
  return {.sizes = {{"N", 1 << 20}, {"B", 64}, {"H", 64}, {"K", 64}},
          .ranks = ranks,
          .most_guess = std::numeric_limits<double>::infinity(),
          .most_seconds = std::numeric_limits<double>::infinity()};
}

// Any time for any plan, from its text.
double any_seconds(const std::string& key, uint64_t seed) {
  const uint64_t hash = fnv(key, seed);
  return 1 + static_cast<double>(hash >> 40) / static_cast<double>(1 << 24);
}

// Any times: the fastest of the listed plans is found among so many runs of the tuner.
void expect_fastest(const Program& program, size_t least_plans) {
  const Listing all(program);
  EXPECT_GE(all.runs().size(), least_plans);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto seconds_of = [&](const Program& scheduled) { return any_seconds(run_key(scheduled), seed); };
    FakeClock clock{.seconds_of = seconds_of};
    const TunerResult result = tune(program, options_for(4), clock.hooks());
    EXPECT_NEAR(result.best().seconds, all.least(seconds_of), 1e-6) << to_text(result.best().schedule.log());
    EXPECT_TRUE(result.complete);
  }
}

TEST(Tuner, FindsTheFastestOfAllSchedulesOfAnUpdate) { expect_fastest(sgd(), 6); }

TEST(Tuner, FindsTheFastestOfAllSchedulesOfAResult) { expect_fastest(row(), 6); }

bool is_overlapped(const Program& program) {
  return std::ranges::any_of(SchedulePlan(program).steps(), [](const PlanStep& step) { return step.by_parts; });
}

TEST(Tuner, FindsTheFastestOfAllSchedulesWithOverlaps) {
  // A product with its all-reduce, or with fuse(RS-C-AG). Sliced weights have other parts.
  for (const auto& [program, least] : {std::pair(layer(), 2), {parse_program(kScaled, "scaled"), 1}}) {
    expect_fastest(program, 8);
    const Listing all(program);
    int overlapped = 0;
    for (const auto& [key, each] : all.runs()) overlapped += is_overlapped(each) ? 1 : 0;
    EXPECT_GE(overlapped, least) << program.name();
    // The tuner returns an overlap if it halves the time.
    FakeClock clock{.seconds_of = [](const Program& each) { return is_overlapped(each) ? 1.0 : 2.0; }};
    EXPECT_TRUE(is_overlapped(tune(program, options_for(4), clock.hooks()).best().schedule.program()));
  }
}

// The producer comes first, whatever the names.
TEST(Tuner, OverlapsAProducerWithAnyName) {
  std::string text = kLayer;
  for (size_t at; (at = text.find("product")) != std::string::npos;) text.replace(at, 7, "z");
  const ScheduleSpace space = schedule_space(parse_program(text, "layer"));
  EXPECT_TRUE(std::ranges::any_of(space.schedules, [](const Schedule& each) {
    return !run_key(each.program()).empty() && is_overlapped(each.program());
  }));
}

// Only an overlapped product has parts, and each axis starts from the best of those before.
TEST(Tuner, TriesRowsOfAProductsParts) {
  FakeClock clock{.seconds_of = [](const Program& each) { return is_overlapped(each) ? 1.0 : 1.5; },
                  .share_of =
                      [](const Program& each, const RunSettings& settings) {
                        EXPECT_TRUE(settings.part_rows == 0 || is_overlapped(each));
                        return (settings.part_rows == 128 ? 0.8 : 1.0) * (settings.segment_bytes == 16384 ? 0.9 : 1.0);
                      }};
  TunerOptions options = options_for(4);
  options.axes = {.segment_bytes = {16384, 32768}, .part_rows = {64, 128, 512}};
  const TunerResult result = tune(layer(), options, clock.hooks());
  EXPECT_EQ(result.best().settings, (RunSettings{.segment_bytes = 16384, .part_rows = 128}));
  EXPECT_NEAR(result.best().seconds, 0.72, 1e-9);
}

TEST(Tuner, HasNoScheduleWithOtherResults) {
  for (const Program& program : {sgd(), parse_program(kMomentum, "momentum"), figures::adam(), figures::clipped_adam(),
                                 layer(), parse_program(kScaled, "scaled")}) {
    OracleOptions oracle{.ranks = 3, .sizes = {{"N", 7}, {"B", 5}, {"K", 4}, {"H", 3}}, .cut = {}, .scalars = {}};
    const OracleInputs inputs = random_inputs(program, oracle, 1);
    const OracleResult need = run_oracle(program, inputs, oracle);
    const ScheduleSpace space = schedule_space(program);
    EXPECT_TRUE(space.complete);
    std::set<std::string> texts;
    for (const Schedule& each : space.schedules) {
      EXPECT_EQ(difference(need, run_oracle(each.program(), inputs, oracle), 1e-9), "") << to_text(each.log());
      EXPECT_TRUE(texts.insert(canonical_text(each.program())).second) << "twice: " << to_text(each.log());
      Schedule replayed(program);
      for (const Transformation& move : each.log()) replayed.apply(move);
      EXPECT_EQ(replayed.program(), each.program());
    }
  }
}

// The schedules of the paper's figures are among them.
TEST(Tuner, FindsThePapersSchedules) {
  const TunerOptions options = options_for(4);
  const auto counts_of = [&](const Program& program) { return SchedulePlan(program).counts(options.sizes, 4); };
  const auto has = [&](const Schedule& schedule, const Program& plain) {
    const PlanCounts need = counts_of(schedule.program());
    const ScheduleSpace space = schedule_space(plain);
    return std::ranges::any_of(space.schedules, [&](const Schedule& each) {
      if (run_key(each.program()).empty()) return false;
      const PlanCounts got = counts_of(each.program());
      return got.launches == need.launches && got.bytes_sent == need.bytes_sent &&
             got.memory_bytes == need.memory_bytes && got.state_bytes == need.state_bytes;
    });
  };
  for (const Schedule& schedule : {figures::ar_opt(), figures::rs_opt_ag(), figures::fuse_rs_opt_ag()})
    EXPECT_TRUE(has(schedule, figures::adam())) << to_text(schedule.log());
  EXPECT_TRUE(has(figures::clipped_fuse(), figures::clipped_adam()));
}

TEST(Tuner, RunsNothingTwiceAndNothingThatTheMachineRulesOut) {
  FakeClock clock{.seconds_of = [](const Program&) { return 1.0; }};
  TunerOptions options = options_for(4);
  const TunerResult all = tune(row(), options, clock.hooks());
  EXPECT_EQ(all.count(State::pruned), 0);
  EXPECT_GT(all.count(State::like_another), 0);
  EXPECT_EQ(clock.prepared, all.count(State::timed) + std::min(3, all.count(State::timed)));
  // Memory is everything: what reads and writes more than 1.5 times the least is not run.
  options.rates = {.sent_bytes_per_second = 1e15, .memory_bytes_per_second = 1e6};
  options.most_guess = 1.5;
  const TunerResult some = tune(row(), options, clock.hooks());
  EXPECT_GT(some.count(State::pruned), 0);
  EXPECT_GT(some.count(State::timed), 1);
  double least = std::numeric_limits<double>::infinity();
  for (const TunedSchedule& each : all.schedules)
    if (each.state == State::timed) least = std::min(least, each.counts.memory_bytes);
  for (const TunedSchedule& each : some.schedules) {
    if (each.state == State::timed) {
      EXPECT_LE(each.counts.memory_bytes, 1.5 * least);
    }
  }
}

// Every schedule of the three fastest runs with all values, one axis after the other.
TEST(Tuner, FindsTheFastestSettings) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    FakeClock clock{.seconds_of = [&](const Program& each) { return any_seconds(run_key(each), seed); },
                    .share_of =
                        [&](const Program& each, const RunSettings& settings) {
                          const auto share = [&](const RunSettings& of) {
                            return any_seconds(to_string(of) + run_key(each), seed) - 0.5;
                          };
                          return share({.threads = settings.threads}) *
                                 share({.segment_bytes = settings.segment_bytes});
                        }};
    TunerOptions options = options_for(4);
    options.axes = {.threads = {4, 2, 1}, .segment_bytes = {16384, 65536}};
    const TunerResult all = tune(sgd(), options_for(4), clock.hooks()), result = tune(sgd(), options, clock.hooks());
    std::vector<double> first;  // with the first settings
    for (const TunedSchedule& each : all.schedules)
      if (each.state == State::timed) first.push_back(each.seconds);
    ASSERT_GE(first.size(), 3U);
    const auto seconds = [&](const TunedSchedule& each, const RunSettings& settings) {
      const Program& program = each.schedule.program();
      return clock.share_of(program, settings) * clock.seconds_of(program);
    };
    double least = std::numeric_limits<double>::infinity();
    for (const TunedSchedule& each : all.schedules)
      if (each.state == State::timed && each.seconds <= first[2])
        for (const int threads : {0, 4, 2, 1})
          for (const int64_t segment : {0, 16384, 65536}) least = std::min(least, seconds(each, {threads, segment}));
    EXPECT_LE(result.best().seconds, least / 0.97 / 0.97 + 1e-6);
    EXPECT_NEAR(result.best().seconds, seconds(result.best(), result.best().settings), 1e-6);
  }
}

TEST(Tuner, StopsWhenTheTimeIsOver) {
  FakeClock clock{.seconds_of = [](const Program&) { return 4.0; }};
  TunerOptions options = options_for(2);
  options.most_seconds = 10;
  const TunerResult result = tune(sgd(), options, clock.hooks());
  EXPECT_EQ(result.count(State::timed), 1);
  EXPECT_GT(result.count(State::left_out), 0);
  for (const TunedSchedule& each : result.schedules) {
    if (each.state == State::left_out) {
      EXPECT_GE(each.guess, result.best().guess);
    }
  }
}

// Half of the time is for runs, even if the search itself would take it all.
TEST(Tuner, SearchesForHalfOfTheTime) {
  FakeClock clock{.seconds_of = [](const Program&) { return 0.01; }};
  TunerOptions options = options_for(2);
  options.most_seconds = 10;
  TunerHooks hooks = clock.hooks();
  hooks.clock = [&] { return clock.now += clock.prepared == 0 ? 1 : 0; };  // each look takes a second
  const TunerResult result = tune(sgd(), options, hooks);
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.search_seconds, 7);
  EXPECT_GT(result.count(State::timed), 0);
}

TEST(Tuner, SaysWhatNoExecutorRuns) {
  const FakeClock unused;
  const TunerHooks hooks = {.prepare = [](const SchedulePlan&, const RunSettings&) -> std::function<void()> {
                              throw UserError("executor", "not here");
                            },
                            .clock = [] { return 0.0; },
                            .agreed = [](double number) { return number; }};
  EXPECT_USER_ERROR(tune(sgd(), options_for(2), hooks), "no executor runs any of its schedules", "not here",
                    "change the program");
}

}  // namespace
}  // namespace axonn::tune
