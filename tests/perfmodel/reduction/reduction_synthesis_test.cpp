#include "axonn/perfmodel/reduction/reduction_synthesis.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "perfmodel/p2_tables.hpp"
#include "perfmodel/reduction/reduction_search.hpp"

namespace axonn {
namespace {

using Ints = std::vector<int>;
using Groups = std::vector<Ints>;

std::string refusal(auto&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.sentence();
  }
  return "no error";
}

size_t count(const Ints& sizes, SynthesisLanguage language, int limit) {
  return synthesize(sizes, {.language = language, .length_limit = limit}).size();
}

TEST(Synthesis, ReproducesThe42TotalsOfThePapersAppendix) {
  const auto tables = testing_support::p2_groups();
  if (tables.empty()) GTEST_SKIP() << "the paper's tables are not beside this checkout";
  std::set<int> totals;
  int compared = 0;
  for (const auto& rows : tables) {
    size_t programs = 0;
    for (const auto& row : rows)
      programs += count(synthesis_hierarchy(row.matrix, row.reduce_axes).sizes, SynthesisLanguage::paper, 5);
    ASSERT_TRUE(rows[0].total_programs);
    EXPECT_EQ(programs, static_cast<size_t>(*rows[0].total_programs)) << rows[0].matrix.to_string();
    totals.insert(*rows[0].total_programs);
    ++compared;
  }
  EXPECT_EQ(compared, 42);
  EXPECT_EQ(totals, (std::set<int>{6, 47, 50, 53, 94, 97, 188, 235}));
}

TEST(Synthesis, FindsAsManyProgramsAsAreKnownForEveryLengthLimit) {
  const auto counts = [](const Ints& sizes, int most) {
    std::vector<size_t> found;
    for (int limit = 1; limit <= most; ++limit) found.push_back(count(sizes, SynthesisLanguage::paper, limit));
    return found;
  };
  EXPECT_EQ(counts({}, 2), (std::vector<size_t>{1, 1}));  // one device: the program without steps
  EXPECT_EQ(counts({16}, 6), (std::vector<size_t>{1, 3, 3, 3, 3, 3}));
  EXPECT_EQ(counts({2, 16}, 7), (std::vector<size_t>{1, 5, 25, 47, 47, 47, 47}));
  EXPECT_EQ(counts({2, 2, 2}, 6), (std::vector<size_t>{1, 7, 57, 262, 825, 1362}));
  EXPECT_EQ(count({2, 2, 2, 2}, SynthesisLanguage::paper, 5), 3967u);
  EXPECT_EQ(count({4, 16}, SynthesisLanguage::full, 5), 93u);  // the paper's text read literally
}

// Exhaustive depth-first search on the real sizes, without remembered states or levels of two.
void enumerate(const ReductionState& state, const std::vector<ReductionStep>& steps, const Groups& whole,
               ReductionGoal goal, int left, Ints& path, std::set<Ints>& found) {
  for (size_t i = 0; i < steps.size(); ++i) {
    ReductionState next = state;
    if (next.apply(steps[i]) != ReductionFault::none) continue;
    path.push_back(static_cast<int>(i));
    if (reached(next, whole, goal))
      found.insert(path);
    else if (left > 1)
      enumerate(next, steps, whole, goal, left - 1, path, found);
    path.pop_back();
  }
}

Ints up_to(int count) {
  Ints all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(Synthesis, IsWhatBruteForceFindsOnTheTrueSizes) {
  struct Case {
    Ints sizes;
    int limit;
  };
  for (const auto& [sizes, limit] : std::vector<Case>{
           {{5}, 4}, {{2, 2}, 5}, {{2, 3}, 5}, {{3, 2}, 5}, {{4, 4}, 4}, {{2, 8}, 4}, {{2, 3, 2}, 3}, {{1, 6}, 4}})
    for (const auto language : {SynthesisLanguage::paper, SynthesisLanguage::full})
      for (const auto goal : {ReductionGoal::all_reduce, ReductionGoal::reduce_scatter, ReductionGoal::scatter}) {
        const int devices = std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies());
        const SynthesisHierarchy hierarchy = {.sizes = sizes, .groups = {up_to(devices)}};
        const auto choices = instructions(sizes, language);
        const auto steps = lower(choices, hierarchy).steps;
        std::set<Ints> paths;
        Ints path;
        enumerate(ReductionState(devices), steps, hierarchy.groups, goal, limit, path, paths);
        std::set<std::string> expected, found;
        for (const Ints& p : paths) {
          ReductionProgram program;
          for (const int i : p) program.steps.push_back(steps[static_cast<size_t>(i)]);
          expected.insert(program.to_string());
        }
        const auto programs = synthesize(sizes, {.language = language, .goal = goal, .length_limit = limit});
        for (const auto& program : programs) found.insert(lower(program, hierarchy).to_string());
        EXPECT_EQ(found.size(), programs.size());
        EXPECT_EQ(found, expected);
      }
}

TEST(Synthesis, ComesShortestFirstAndAlwaysInTheSameOrder) {
  const auto programs = synthesize(Ints{2, 2, 2}, {});
  EXPECT_TRUE(std::ranges::is_sorted(programs, {}, &InstructionProgram::size));
  EXPECT_EQ(programs, synthesize(Ints{2, 2, 2}, {}));
  EXPECT_EQ(programs, synthesize(Ints{4, 3, 16}, {}));
  const Ints gaps = {1, 4, 1, 3};
  for (const auto& program : synthesize(gaps, {}))
    for (const auto& instruction : program) EXPECT_FALSE(instruction_groups(gaps, instruction).empty());
}

TEST(Synthesis, FindsTheProgramsOfFigure10) {
  const std::vector<std::string> names = {"node", "gpu"};
  std::set<std::string> texts;
  for (const auto& program : synthesize(Ints{2, 4}, {.language = SynthesisLanguage::paper})) {
    std::string text;
    for (const auto& instruction : program) text += to_string(instruction, names);
    texts.insert(text);
  }
  EXPECT_TRUE(texts.contains("(root, InsideGroup, AllReduce)"));
  EXPECT_TRUE(
      texts.contains("(node, InsideGroup, Reduce)(node, Master(root), AllReduce)(node, InsideGroup, Broadcast)"));
  EXPECT_TRUE(texts.contains(
      "(node, InsideGroup, ReduceScatter)(node, Parallel(root), AllReduce)(node, InsideGroup, AllGather)"));
  EXPECT_EQ(texts.size(), 47u);
}

TEST(Synthesis, ScattersToo) {
  const auto texts = [](ReductionGoal goal) {
    std::set<std::string> all;
    for (const auto& program : synthesize(Ints{2, 2}, {.goal = goal}))
      all.insert(lower(program, {.sizes = {2, 2}, .groups = {{0, 1, 2, 3}}}).to_string());
    return all;
  };
  const auto in_order = texts(ReductionGoal::reduce_scatter), any_order = texts(ReductionGoal::scatter);
  EXPECT_TRUE(in_order.contains("reduce-scatter:0-3"));
  EXPECT_TRUE(in_order.contains("reduce-scatter:0+2,1+3/reduce-scatter:0+1,2+3"));
  EXPECT_FALSE(in_order.contains("reduce-scatter:0+1,2+3/reduce-scatter:0+2,1+3"));
  // The cheap one: inside the node first.
  EXPECT_TRUE(any_order.contains("reduce-scatter:0+1,2+3/reduce-scatter:0+2,1+3"));
  EXPECT_TRUE(std::ranges::includes(any_order, in_order));
}

TEST(Lowering, RunsInAllReductionGroupsAtOnce) {
  const auto matrix = parse_parallelism_matrix("1x2,2x2");  // 2 nodes of 4: axis 0 inside, axis 1 across
  const auto hierarchy = synthesis_hierarchy(matrix, Ints{1});
  EXPECT_EQ(hierarchy.sizes, (Ints{2, 2}));
  EXPECT_EQ(hierarchy.groups, (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  const ReductionInstruction inside = {.slice = 1, .collective = Collective::reduce_scatter};
  EXPECT_EQ(lower({inside}, hierarchy).to_string(), "reduce-scatter:0+1,4+5,2+3,6+7");
  const ReductionInstruction masters = {.slice = 1, .form = InstructionForm::master, .ancestor = 0};
  EXPECT_EQ(lower({masters}, hierarchy).to_string(), "all-reduce:0+4,2+6");
}

TEST(Lowering, OfEveryProgramReducesEveryGroup) {
  std::mt19937 random(1);
  for (const char* text : {"2x2,1x4", "2x3,2x1", "1x2,2x2,2x1", "4x1,1x2"})
    for (const Ints& axes : std::vector<Ints>{{0}, {1}, {0, 1}})
      for (const auto collapse : {AxisCollapse::hardware, AxisCollapse::paper})
        for (const auto goal : {ReductionGoal::all_reduce, ReductionGoal::reduce_scatter, ReductionGoal::scatter}) {
          const auto hierarchy = synthesis_hierarchy(parse_parallelism_matrix(text), axes, collapse);
          for (const auto& program : synthesize(hierarchy.sizes, {.goal = goal})) {
            if (random() % 4 != 0) continue;
            const auto lowered = lower(program, hierarchy);
            check_reduces(lowered, hierarchy.groups, goal);
            held_chunks(lowered, parse_parallelism_matrix(text).devices());
          }
        }
}

TEST(Collapse, GoesByHardwareOrAsThePaperNumbersDevices) {
  const auto matrix = parse_parallelism_matrix("2x1,1x2,1x2");  // 2 nodes of 4; reduce axes 0 (across) and 2 (inside)
  const auto right = synthesis_hierarchy(matrix, Ints{0, 2}),
             papers = synthesis_hierarchy(matrix, Ints{0, 2}, AxisCollapse::paper);
  EXPECT_EQ(right.sizes, (Ints{2, 2}));
  EXPECT_EQ(right.groups, (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(papers.groups, right.groups);  // both agree here
  // Axis 0 inside, axis 2 across: the paper's outer digit is inside the node.
  const auto crossed = parse_parallelism_matrix("1x2,1x2,2x1");
  EXPECT_EQ(synthesis_hierarchy(crossed, Ints{0, 2}).groups, (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(synthesis_hierarchy(crossed, Ints{0, 2}, AxisCollapse::paper).groups, (Groups{{0, 4, 2, 6}, {1, 5, 3, 7}}));
}

TEST(Synthesis, RefusesWhatItCannotDo) {
  const auto matrix = parse_parallelism_matrix("2x1,1x2");
  EXPECT_EQ(refusal([&] { synthesis_hierarchy(matrix, Ints{2}); }), "there is no axis 2 in [[2 1] [1 2]]");
  EXPECT_EQ(refusal([&] { synthesis_hierarchy(matrix, Ints{1, 1}); }), "reduction axis 1 is named twice");
  EXPECT_EQ(refusal([] { synthesize(Ints{2, 0}, {}); }), "sizes of a hierarchy must be at least 1, got 0");
  EXPECT_EQ(refusal([] { synthesize(Ints(6, 2), {}); }),
            "programs are searched on at most 5 levels of more than one device, got 6");
  EXPECT_EQ(refusal([] { synthesize(Ints{2}, {.length_limit = 0}); }),
            "the length limit must be at least 1 step, got 0");
  EXPECT_EQ(refusal([] { instruction_groups(Ints{2}, {.slice = 1, .form = InstructionForm::master, .ancestor = 1}); }),
            "level 1 is not above level 1");
  EXPECT_EQ(refusal([] { instruction_groups(Ints{2}, {.slice = 2}); }), "there is no level 2 in a hierarchy of 1");
}

// Theorem 3.2. A lowered program is a list of (collective, set of groups); the devices of a group
// are listed root first.
using Lowered = std::vector<std::pair<Collective, std::set<Ints>>>;

Lowered canonical(const std::vector<ReductionStep>& steps) {
  Lowered found;
  for (const auto& step : steps)
    found.emplace_back(step.collective, std::set<Ints>(step.groups.begin(), step.groups.end()));
  return found;
}

// All valid programs of a hierarchy over all devices. devices[i] is the device at index i.
std::set<Lowered> programs_over_all(const Ints& sizes, const Ints& devices, const Groups& reduction,
                                    SynthesisLanguage language, int limit) {
  const auto steps = lower(instructions(sizes, language), {.sizes = sizes, .groups = {devices}}).steps;
  std::set<Lowered> found;
  for (const auto& path :
       search_reductions(static_cast<int>(devices.size()), steps, reduction, ReductionGoal::all_reduce, limit)) {
    std::vector<ReductionStep> program;
    for (const int i : path) program.push_back(steps[static_cast<size_t>(i)]);
    found.insert(canonical(program));
  }
  return found;
}

struct Expressible {
  std::set<Lowered> a, b, c, d;
};

Expressible programs_of_all_four(const ParallelismMatrix& matrix, int axis, int limit, SynthesisLanguage language) {
  const auto hierarchy = synthesis_hierarchy(matrix, Ints{axis});
  Ints system, columns, rows;
  for (int level = 0; level < matrix.levels; ++level) system.push_back(matrix.level_size(level));
  for (int level = 0; level < matrix.levels; ++level)
    for (int row = 0; row < matrix.axes; ++row) columns.push_back(matrix.factor(row, level));
  for (const int factor : matrix.factors) rows.push_back(factor);
  const Ints by_device = up_to(matrix.devices());
  Expressible found = {.a = programs_over_all(system, by_device, hierarchy.groups, language, limit),
                       .b = programs_over_all(columns, by_device, hierarchy.groups, language, limit),
                       .c = programs_over_all(rows, matrix.devices_of_positions(), hierarchy.groups, language, limit)};
  for (const auto& program : synthesize(hierarchy.sizes, {.language = language, .length_limit = limit}))
    found.d.insert(canonical(lower(program, hierarchy).steps));
  return found;
}

const std::vector<std::pair<Ints, Ints>> kPlacements = {{{2, 4}, {2, 4}},       {{2, 4}, {4, 2}}, {{2, 2, 2}, {4, 2}},
                                                        {{2, 2, 2}, {2, 4}},    {{2, 6}, {4, 3}}, {{3, 4}, {6, 2}},
                                                        {{2, 2, 2}, {2, 2, 2}}, {{2, 2, 3}, {12}}};

// f(matrix, axis) for every matrix of the placements above.
void for_each_reduction(auto&& f) {
  for (const auto& [levels, axes] : kPlacements)
    for (const auto& matrix : testing_support::parallelism_matrices(levels, axes))
      for (int axis = 0; axis < matrix.axes; ++axis) {
        SCOPED_TRACE(matrix.to_string() + " axis " + std::to_string(axis));
        f(matrix, axis);
      }
}

TEST(Theorem32, TheReductionAxisHierarchyExpressesWhatTheOthersDo) {
  size_t programs = 0;
  for_each_reduction([&](const ParallelismMatrix& matrix, int axis) {
    const auto found = programs_of_all_four(matrix, axis, 4, SynthesisLanguage::paper);
    for (const auto* lesser : {&found.a, &found.b, &found.c}) {
      EXPECT_TRUE(std::ranges::includes(found.d, *lesser));
      programs += lesser->size();
    }
    EXPECT_TRUE(std::ranges::includes(found.b, found.a));
  });
  EXPECT_GT(programs, 1000u);
}

// A step that runs in some groups of the reduction and not in others.
bool is_lopsided(const Lowered& program, const Groups& reduction) {
  return std::ranges::any_of(program, [&](const auto& step) {
    const auto takes_part = [&](const Ints& group) {
      return std::ranges::any_of(step.second,
                                 [&](const Ints& ranks) { return std::ranges::find(group, ranks[0]) != group.end(); });
    };
    return !std::ranges::all_of(reduction, takes_part);
  });
}

TEST(Theorem32, HoldsInTheFullLanguageButForBroadcastsInOneGroupAlone) {  // the paper's lemma B.6 omits them
  size_t lopsided = 0;
  for_each_reduction([&](const ParallelismMatrix& matrix, int axis) {
    const auto reduction = synthesis_hierarchy(matrix, Ints{axis}).groups;
    const auto found = programs_of_all_four(matrix, axis, 3, SynthesisLanguage::full);
    for (const auto* lesser : {&found.a, &found.b, &found.c})
      for (const Lowered& program : *lesser) {
        EXPECT_TRUE(found.d.contains(program) != is_lopsided(program, reduction));
        lopsided += is_lopsided(program, reduction) ? 1 : 0;
      }
  });
  EXPECT_GT(lopsided, 0u);
}

TEST(Theorem32, RowsDoNotExpressAllThatColumnsDo) {  // contradicts the paper's middle step, (c) >= (b)
  const auto found = programs_of_all_four(parse_parallelism_matrix("1x2x2,2x1x1"), 0, 3, SynthesisLanguage::paper);
  EXPECT_FALSE(std::ranges::includes(found.c, found.b));
  EXPECT_TRUE(std::ranges::includes(found.d, found.b));
}

}  // namespace
}  // namespace axonn
