#include "axonn/grid/reduction/reduction_semantics.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

std::string refusal(auto&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.sentence();
  }
  return "no error";
}

// Buffers of real numbers. Each number also counts how often every device's own number is in it.
struct Number {
  double value = 0;
  std::vector<int> times;
};
using Buffer = std::vector<std::optional<Number>>;

class Machine {
 public:
  Machine(int devices, std::mt19937& random) {
    for (int device = 0; device < devices; ++device) {
      Buffer buffer;
      for (int chunk = 0; chunk < devices; ++chunk) {
        Number number = {.value = static_cast<double>(random() % (1u << 20)),
                         .times = std::vector<int>(static_cast<size_t>(devices), 0)};
        number.times[static_cast<size_t>(device)] = 1;
        buffer.push_back(number);
      }
      now.push_back(std::move(buffer));
    }
    start = now;
  }

  // Runs the collective on the numbers as a library would. Returns false and changes nothing when
  // it cannot run, or when the result would not be a sum of different devices' numbers. Also false
  // for a broadcast that brings nothing new or loses something.
  bool run(Collective collective, const std::vector<int>& group) {
    std::vector<Buffer> before;
    for (const int device : group) before.push_back(now[static_cast<size_t>(device)]);
    auto after = computed(collective, before);
    if (!after) return false;
    for (size_t i = 0; i < group.size(); ++i) now[static_cast<size_t>(group[i])] = (*after)[i];
    return true;
  }

  std::vector<Buffer> start, now;

 private:
  static std::vector<size_t> present(const Buffer& buffer) {
    std::vector<size_t> chunks;
    for (size_t chunk = 0; chunk < buffer.size(); ++chunk)
      if (buffer[chunk]) chunks.push_back(chunk);
    return chunks;
  }

  static std::optional<Buffer> sum(const std::vector<Buffer>& members) {
    Buffer total(members[0].size());
    for (const Buffer& member : members) {
      if (present(member) != present(members[0]) || present(member).empty()) return std::nullopt;
      for (const size_t chunk : present(member)) {
        if (!total[chunk]) total[chunk] = Number{.times = std::vector<int>(member.size(), 0)};
        total[chunk]->value += member[chunk]->value;
        for (size_t i = 0; i < member.size(); ++i)
          if ((total[chunk]->times[i] += member[chunk]->times[i]) > 1) return std::nullopt;
      }
    }
    return total;
  }

  static std::optional<std::vector<Buffer>> computed(Collective collective, const std::vector<Buffer>& members) {
    std::vector<Buffer> after(members.size(), Buffer(members[0].size()));
    const auto chunks = present(members[0]);
    if (collective == Collective::all_gather) {
      for (const Buffer& member : members)
        for (const size_t chunk : present(member)) {
          if (after[0][chunk]) return std::nullopt;
          for (Buffer& one : after) one[chunk] = member[chunk];
        }
      for (const Buffer& member : members)
        if (present(member).size() != chunks.size() || chunks.empty()) return std::nullopt;
      return after;
    }
    if (collective == Collective::broadcast) {
      bool news = false;
      for (Buffer& one : after) one = members[0];
      for (const Buffer& member : members)
        for (size_t chunk = 0; chunk < member.size(); ++chunk)
          for (size_t i = 0; i < member.size(); ++i) {
            const int has = member[chunk] ? member[chunk]->times[i] : 0,
                      root = members[0][chunk] ? members[0][chunk]->times[i] : 0;
            if (has > root) return std::nullopt;
            news = news || has < root;
          }
      return news ? std::optional(after) : std::nullopt;
    }
    const auto total = sum(members);
    if (!total || (collective == Collective::reduce_scatter && chunks.size() % members.size() != 0))
      return std::nullopt;
    for (size_t i = 0; i < members.size(); ++i)
      for (size_t n = 0; n < chunks.size(); ++n) {
        const bool mine = collective == Collective::all_reduce || (collective == Collective::reduce && i == 0) ||
                          (collective == Collective::reduce_scatter && n / (chunks.size() / members.size()) == i);
        if (mine) after[i][chunks[n]] = (*total)[chunks[n]];
      }
    return after;
  }
};

void expect_same(const ReductionState& state, const Machine& machine) {
  const int k = state.devices();
  for (int device = 0; device < k; ++device)
    for (int chunk = 0; chunk < k; ++chunk) {
      const auto& number = machine.now[static_cast<size_t>(device)][static_cast<size_t>(chunk)];
      ASSERT_EQ(state.holds(device, chunk), number.has_value());
      double expected = 0;
      for (int source = 0; source < k; ++source)
        if (state.contributed(device, chunk, source))
          expected += machine.start[static_cast<size_t>(source)][static_cast<size_t>(chunk)]->value;
      ASSERT_EQ(number ? number->value : 0.0, expected);
    }
}

ReductionStep random_step(std::mt19937& random, int devices) {
  std::vector<int> order(static_cast<size_t>(devices));
  std::iota(order.begin(), order.end(), 0);
  if (random() % 4 == 0) std::ranges::shuffle(order, random);
  // Mostly groups of neighbours or of every n-th device, so that many programs are valid.
  const int size = 2 + static_cast<int>(random() % static_cast<unsigned>(devices - 1)), groups = devices / size;
  ReductionStep step = {.collective = kCollectives[random() % 5]};
  const bool strided = random() % 2 == 0;
  for (int g = 0; g < groups; ++g) {
    auto& group = step.groups.emplace_back();
    for (int i = 0; i < size; ++i) group.push_back(order[static_cast<size_t>(strided ? g + i * groups : g * size + i)]);
  }
  if (random() % 4 == 0) step.groups.resize(1);
  return step;
}

TEST(ReductionState, IsWhatRealNumbersBecome) {
  std::mt19937 random(3);
  int applied = 0, refused = 0, all_reduced = 0;
  for (int trial = 0; trial < 8000; ++trial) {
    const int devices = 2 + static_cast<int>(random() % 7);
    ReductionState state(devices);
    Machine machine(devices, random);
    ReductionProgram program;
    for (int attempt = 0; attempt < 30; ++attempt) {
      const auto step = random_step(random, devices);
      const ReductionState before = state;
      bool all = true;
      for (const auto& group : step.groups) {
        const ReductionState earlier = state;
        const bool fine = state.apply(step.collective, group) == ReductionFault::none;
        ASSERT_EQ(fine, machine.run(step.collective, group)) << to_string(step.collective);
        ASSERT_TRUE(fine || state == earlier);
        all = all && fine;
        if (fine) program.steps.push_back({step.collective, {group}});
      }
      ++(all ? applied : refused);
      ASSERT_NO_FATAL_FAILURE(expect_same(state, machine));
    }
    std::vector<int> everyone(static_cast<size_t>(devices));
    std::iota(everyone.begin(), everyone.end(), 0);
    all_reduced += reached(state, std::vector<std::vector<int>>{everyone}, ReductionGoal::all_reduce) ? 1 : 0;
    const auto flow = held_chunks(program, devices);  // the same chunks, without their contributions
    for (int device = 0; device < devices; ++device) {
      int64_t held = 0;
      for (int chunk = 0; chunk < devices; ++chunk) held += state.holds(device, chunk) ? 1 : 0;
      ASSERT_EQ(held * flow.chunks, flow.count(program.steps.size(), device) * devices) << program.to_string();
    }
  }
  EXPECT_GT(applied, 10000);
  EXPECT_GT(refused, 10000);
  EXPECT_GT(all_reduced, 500);
}

TEST(ReductionState, RefusesWhatFigure4Shows) {
  ReductionState scattered(4);
  EXPECT_EQ(scattered.apply(Collective::reduce_scatter, std::array{0, 1}), ReductionFault::none);
  EXPECT_EQ(scattered.apply(Collective::all_reduce, std::array{0, 1}), ReductionFault::other_chunks);
  ReductionState twice(4);
  EXPECT_EQ(twice.apply({Collective::all_reduce, {{0, 1}, {2, 3}}}), ReductionFault::none);
  EXPECT_EQ(twice.apply(Collective::all_reduce, std::array{0, 1}), ReductionFault::counted_twice);
  EXPECT_EQ(twice.apply(Collective::all_reduce, std::array{0, 2}), ReductionFault::none);
}

TEST(ReductionState, NamesTheRuleThatIsBroken) {
  ReductionState state(4);
  EXPECT_EQ(state.apply(Collective::all_gather, std::array{0, 1}), ReductionFault::held_twice);
  EXPECT_EQ(state.apply(Collective::broadcast, std::array{0, 1}), ReductionFault::root_knows_less);
  EXPECT_EQ(state.apply(Collective::reduce_scatter, std::array{0, 1, 2}), ReductionFault::not_divisible);
  ASSERT_EQ(state.apply({Collective::reduce, {{0, 1}, {2, 3}}}), ReductionFault::none);
  EXPECT_EQ(state.apply(Collective::all_gather, std::array{0, 1}), ReductionFault::uneven);
  for (const Collective collective : kCollectives)
    EXPECT_EQ(state.apply(collective, std::array{1, 3}), ReductionFault::no_data);
  ASSERT_EQ(state.apply(Collective::broadcast, std::array{0, 1}), ReductionFault::none);
  EXPECT_EQ(state.apply(Collective::broadcast, std::array{0, 1}), ReductionFault::nothing_new);
}

TEST(ReductionState, HasManyDevices) {
  ReductionState state(130);  // three words of contributions
  std::vector<int> all(130);
  std::iota(all.begin(), all.end(), 0);
  ASSERT_EQ(state.apply(Collective::reduce_scatter, all), ReductionFault::none);
  EXPECT_TRUE(reached(state, std::vector<std::vector<int>>{all}, ReductionGoal::reduce_scatter));
  EXPECT_TRUE(state.contributed(129, 129, 64) && !state.holds(129, 0));
  ASSERT_EQ(state.apply(Collective::all_gather, all), ReductionFault::none);
  EXPECT_TRUE(reached(state, std::vector<std::vector<int>>{all}, ReductionGoal::all_reduce));
  EXPECT_EQ(refusal([] { ReductionState(0); }), "a reduction is followed for 1 to 1024 devices, got 0");
  EXPECT_NE(refusal([] { ReductionState(1025); }), "no error");
}

TEST(Goals, AreExact) {
  const std::vector<std::vector<int>> one = {{0, 1, 2, 3}}, two = {{0, 1}, {2, 3}};
  const auto after = [](const char* text) {
    ReductionState state(4);
    for (const auto& step : parse_reduction_program(text).steps)
      EXPECT_EQ(state.apply(step), ReductionFault::none) << text;
    return state;
  };
  using enum ReductionGoal;
  EXPECT_TRUE(reached(after("all-reduce:0-3"), one, all_reduce));
  EXPECT_FALSE(reached(after("all-reduce:0+1,2+3"), one, all_reduce));
  EXPECT_TRUE(reached(after("all-reduce:0+1,2+3"), two, all_reduce));
  EXPECT_FALSE(reached(after("all-reduce:0-3"), two, all_reduce));  // sums too much
  EXPECT_FALSE(reached(after("reduce:0-3"), one, all_reduce));
  EXPECT_TRUE(reached(after("reduce-scatter:0-3"), one, reduce_scatter));
  EXPECT_TRUE(reached(after("reduce-scatter:0-3"), one, scatter));
  EXPECT_TRUE(reached(after("reduce-scatter:0+1,2+3"), two, reduce_scatter));
  EXPECT_TRUE(reached(after("reduce-scatter:0+2,1+3/reduce-scatter:0+1,2+3"), one, reduce_scatter));  // outer first
  EXPECT_FALSE(reached(after("reduce-scatter:0+1,2+3/reduce-scatter:0+2,1+3"), one, reduce_scatter));
  EXPECT_TRUE(reached(after("reduce-scatter:0+1,2+3/reduce-scatter:0+2,1+3"), one, scatter));
  EXPECT_FALSE(reached(after("all-reduce:0-3"), one, scatter));
  EXPECT_FALSE(reached(after("reduce:0-3"), one, scatter));
}

TEST(CheckReduces, SaysWhereAProgramGoesWrong) {
  const std::vector<std::vector<int>> one = {{0, 1, 2, 3, 4, 5, 6, 7}}, two = {{0, 2, 4, 6}, {1, 3, 5, 7}};
  const auto check = [](const char* text, const std::vector<std::vector<int>>& groups,
                        ReductionGoal goal = ReductionGoal::all_reduce) {
    return refusal([&] { check_reduces(parse_reduction_program(text), groups, goal); });
  };
  EXPECT_EQ(check("reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7", one), "no error");
  EXPECT_EQ(check("reduce:0-3,4-7/all-reduce:0+4/broadcast:0-3,4-7", one), "no error");
  EXPECT_EQ(check("all-reduce:0-6@2,1-7@2", two), "no error");
  EXPECT_EQ(check("reduce-scatter:0-7", one, ReductionGoal::reduce_scatter), "no error");
  EXPECT_EQ(check("all-reduce:0-3,4-7/all-reduce:0+1", one),
            "step 2 (all-reduce), group 0+1: a contribution would be counted twice");
  EXPECT_EQ(check("all-reduce:0-3,4-7", one), "after its last step the program has not reduced group 0+1+2+3+4+5+6+7");
  EXPECT_EQ(check("all-reduce:0-3,4-7", two),
            "step 1 (all-reduce), group 0+1+2+3: ranks 0 and 1 are in different groups of the reduction, their data "
            "must not be summed");
  EXPECT_EQ(check("all-reduce:0+8", one), "step 1 (all-reduce) names rank 8, this job has 8");
  EXPECT_EQ(check("all-reduce:0+1", {{0, 2}}),
            "step 1 (all-reduce), group 0+1: rank 1 is in no group of the reduction");
  EXPECT_EQ(check("none", {{0, 1}, {1, 2}}), "rank 1 is in two groups of the reduction");
  EXPECT_EQ(check("none", {{0}, {1}}), "no error");
}

}  // namespace
}  // namespace axonn
