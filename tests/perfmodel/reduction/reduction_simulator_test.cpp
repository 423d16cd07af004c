#include "axonn/perfmodel/reduction/reduction_simulator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/perfmodel/reduction/reduction_synthesis.hpp"
#include "perfmodel/p2_tables.hpp"

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

// 2 nodes of 4: 10 bytes/s into and out of a node, 100 for each device.
Network small(bool shared = true) {
  return {.levels = {{.name = "node", .size = 2, .bandwidth_bytes_per_second = 10, .shared = shared},
                     {.name = "gpu", .size = 4, .bandwidth_bytes_per_second = 100}}};
}

double seconds(const Network& network, const char* text, double bytes = 1000,
               CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring) {
  return simulate_reduction(network, parse_reduction_program(text), bytes, algorithm).seconds;
}

TEST(Simulator, GivesTheRingFormulaOfEveryCollectiveInsideANode) {
  EXPECT_DOUBLE_EQ(seconds(small(), "all-reduce:0-3"), 2 * 1000 * 0.75 / 100);
  EXPECT_DOUBLE_EQ(seconds(small(), "reduce-scatter:0-3"), 1000 * 0.75 / 100);
  EXPECT_DOUBLE_EQ(seconds(small(), "reduce-scatter:0-3/all-gather:0-3"), 2 * 1000 * 0.75 / 100);
  EXPECT_DOUBLE_EQ(seconds(small(), "reduce:0-3"), 1000 / 100.0);
  EXPECT_DOUBLE_EQ(seconds(small(), "reduce:0-3/broadcast:0-3"), 2 * 1000 / 100.0);
  EXPECT_DOUBLE_EQ(seconds(small(), "all-reduce:0-2,4-6"), 2 * 1000 * (2 / 3.0) / 100);  // both nodes at the same time
  EXPECT_DOUBLE_EQ(seconds(small(), "none"), 0);
}

TEST(Simulator, SharesTheNicOfANodeAmongAllGroupsThatCrossIt) {
  const char* one = "all-reduce:0+4";
  const char* four = "all-reduce:0+4,1+5,2+6,3+7";
  EXPECT_DOUBLE_EQ(seconds(small(), one), 1000 / 10.0);
  EXPECT_DOUBLE_EQ(seconds(small(), four), 4 * 1000 / 10.0);
  EXPECT_DOUBLE_EQ(seconds(small(false), four), 1000 / 10.0);  // a NIC for every device
  EXPECT_DOUBLE_EQ(seconds(small(), "all-reduce:0-7"), 2 * 1000 * (7 / 8.0) / 10);
  // Rings are sorted, so they enter and leave each node once.
  EXPECT_DOUBLE_EQ(seconds(small(), "all-reduce:0+4+1+5+2+6+3+7"), 2 * 1000 * (7 / 8.0) / 10);
}

TEST(Simulator, SendsLessAcrossNodesAfterAScatter) {
  const auto time = simulate_reduction(
      small(), parse_reduction_program("reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7"), 1000);
  ASSERT_EQ(time.step_seconds.size(), 3u);
  EXPECT_DOUBLE_EQ(time.step_seconds[0], 1000 * 0.75 / 100);
  EXPECT_DOUBLE_EQ(time.step_seconds[1], 4 * 250 / 10.0);
  EXPECT_DOUBLE_EQ(time.step_seconds[2], 1000 * 0.75 / 100);
  EXPECT_DOUBLE_EQ(time.seconds, 7.5 + 100 + 7.5);
}

TEST(Simulator, AddsLatenciesAlongTheRingAndTheCopyOfTheInput) {
  Network network = small();
  network.levels[0].latency_seconds = 3;
  network.levels[1].latency_seconds = 0.5;
  EXPECT_DOUBLE_EQ(seconds(network, "all-reduce:0-3", 0), 2 * 3 * 0.5);
  EXPECT_DOUBLE_EQ(seconds(network, "all-reduce:0+4", 0), 2 * 3);
  EXPECT_DOUBLE_EQ(seconds(network, "reduce-scatter:0+1+4+5", 0), 0.75 * (3 + 3 + 0.5 + 0.5));
  EXPECT_DOUBLE_EQ(seconds(network, "broadcast:0+1+4+5", 0) - 0.5, 3 + 0.5);
  network.memory_bytes_per_second = 400;
  EXPECT_DOUBLE_EQ(seconds(network, "none"), 2 * 1000 / 400.0);
}

TEST(Simulator, StartsAChainAtItsRoot) {
  // The root is in the middle: 5 6 7 then 0 1 ... Each NIC is crossed in one direction only,
  // outwards for a broadcast from rank 1.
  Network network = small();
  network.levels[1].bandwidth_bytes_per_second = 1e9;
  EXPECT_NEAR(seconds(network, "reduce:1+0+4+5"), 100, 1e-3);
  EXPECT_NEAR(seconds(network, "reduce:1+0+4+5/broadcast:1+0+4+5"), 200, 1e-3);
}

TEST(Simulator, HalvesTheDataOverTwoTrees) {
  Network flat = {.levels = {{.name = "node", .size = 2, .bandwidth_bytes_per_second = 10, .shared = true},
                             {.name = "gpu", .size = 2, .bandwidth_bytes_per_second = 1e9}}};
  const auto tree = [&](const char* text) { return seconds(flat, text, 1000, CollectiveAlgorithm::tree); };
  // Each node sends half up one tree and half down the other; a ring takes 150.
  EXPECT_NEAR(tree("all-reduce:0-3"), 100, 1e-3);
  EXPECT_NEAR(tree("all-reduce:0+2"), 100, 1e-3);
  EXPECT_DOUBLE_EQ(tree("reduce-scatter:0-3"), seconds(flat, "reduce-scatter:0-3"));
  flat.levels[0].size = 4;
  // 4 nodes: 0 - 2 - {1, 3} and its mirror image. The inner nodes have three edges of one tree and
  // one of the other.
  EXPECT_NEAR(tree("all-reduce:0+2+4+6"), (3 + 1) * 500 / 10.0, 1e-3);
  flat.levels[0].size = 3;  // 0 - 2 - 1 and, shifted, 1 - 0 - 2
  EXPECT_NEAR(tree("all-reduce:0+2+4"), (2 + 1) * 500 / 10.0, 1e-3);
}

TEST(Simulator, RefusesWhatIsNoMachineOrProgram) {
  const auto refuse = [](auto change) {
    Network network = small();
    change(network);
    return refusal([&] { seconds(network, "all-reduce:0-3"); });
  };
  EXPECT_EQ(refuse([](Network& n) { n.levels.clear(); }), "a network has at least one level");
  EXPECT_EQ(refuse([](Network& n) { n.levels[0].size = 0; }), "level 'node' has size 0, need at least 1");
  EXPECT_EQ(refuse([](Network& n) { n.levels[1].bandwidth_bytes_per_second = 0; }),
            "level 'gpu' has a bandwidth of 0 bytes/s, need more than 0");
  EXPECT_NE(refuse([](Network& n) { n.levels[1].bandwidth_bytes_per_second = std::nan(""); }), "no error");
  EXPECT_EQ(refuse([](Network& n) { n.levels[0].latency_seconds = -1; }),
            "level 'node' has a latency of -1 s, need 0 or more");
  EXPECT_NE(refuse([](Network& n) { n.memory_bytes_per_second = -1; }), "no error");
  EXPECT_NE(refuse([](Network& n) { n.levels[0].size = 1 << 30; }), "no error");
  EXPECT_NE(refusal([] { seconds(small(), "all-reduce:0+8"); }), "no error");
  EXPECT_NE(refusal([] { seconds(small(), "all-gather:0+1"); }), "no error");
  EXPECT_NE(refusal([] { seconds(small(), "none", -1); }), "no error");
}

// The A100 system of the paper's appendix: NICs as measured (the paper assumes 8 GB/s), NVSwitch as
// in its section 5, memory from the data sheet. Each GPU holds 2^29 float32. Seconds are for
// 10 runs.
double seconds_on_a100(const testing_support::P2Row& row, const ReductionProgram& program) {
  const Network a100 = {
      .levels = {{.name = "node", .size = row.levels[0], .bandwidth_bytes_per_second = 9.2e9, .shared = true},
                 {.name = "gpu", .size = row.levels[1], .bandwidth_bytes_per_second = 270e9}},
      .memory_bytes_per_second = 1555e9};
  return 10 * simulate_reduction(a100, program, std::ldexp(4.0, 29)).seconds;
}

struct Prediction {
  double all_reduce = 0;
  std::vector<double> programs;  // ascending
  // The position, from 1, of the program whose prediction is nearest to the measured best.
  size_t place_of(double measured) const {
    const auto nearest = std::ranges::min_element(programs, {}, [&](double s) { return std::abs(s - measured); });
    return static_cast<size_t>(nearest - programs.begin()) + 1;
  }
};

Prediction predict(const testing_support::P2Row& row) {
  const auto hierarchy = synthesis_hierarchy(row.matrix, row.reduce_axes, AxisCollapse::paper);
  Prediction found;
  for (const auto& program : synthesize(hierarchy.sizes, {.language = SynthesisLanguage::paper})) {
    found.programs.push_back(seconds_on_a100(row, lower(program, hierarchy)));
    if (program.size() == 1) found.all_reduce = found.programs.back();
  }
  std::ranges::sort(found.programs);
  return found;
}

TEST(Simulator, IsWithinFivePercentOfThePapersA100RingRows) {
  double all_reduce_error = 0, best_error = 0;
  int rows = 0, top_1 = 0, top_5 = 0, top_10 = 0;
  for (const auto& row : testing_support::p2_appendix()) {
    if (row.gpu != "A100") continue;
    const auto predicted = predict(row);
    all_reduce_error += std::abs(predicted.all_reduce / *row.all_reduce_ring - 1);
    best_error += std::abs(predicted.programs.front() / *row.optimal_ring - 1);
    const size_t place = predicted.place_of(*row.optimal_ring);
    top_1 += place <= 1;
    top_5 += place <= 5;
    top_10 += place <= 10;
    ++rows;
  }
  if (rows == 0) GTEST_SKIP() << "the paper's tables are not beside this checkout";
  EXPECT_EQ(rows, 62);
  const auto percent = [&](double sum) { return 100 * sum / rows; };
  RecordProperty("all_reduce_error_percent", std::to_string(percent(all_reduce_error)));
  RecordProperty("best_error_percent", std::to_string(percent(best_error)));
  EXPECT_LE(percent(all_reduce_error), 5);                   // 3.3
  EXPECT_LE(percent(all_reduce_error + best_error) / 2, 5);  // 4.3; the best programs only: 5.4
  // The paper has, over all its systems, 52, 75 and 92% (its table 5).
  EXPECT_GE(percent(top_1), 52);   // 71
  EXPECT_GE(percent(top_5), 75);   // 76
  EXPECT_GE(percent(top_10), 92);  // 100
}

TEST(Simulator, KnowsWhereAllReduceIsTheBest) {
  int rows = 0;
  for (const auto& row : testing_support::p2_appendix()) {
    if (row.gpu != "A100" || *row.optimal_ring < 0.995 * *row.all_reduce_ring) continue;
    const auto predicted = predict(row);
    EXPECT_LE(predicted.all_reduce, predicted.programs.front() * (1 + 1e-12)) << row.matrix.to_string();
    ++rows;
  }
  if (rows == 0) GTEST_SKIP() << "the paper's tables are not beside this checkout";
  EXPECT_EQ(rows, 24);
}

TEST(Simulator, FindsTheCollapseByHardwareNoSlowerThanThePapers) {
  for (const char* text : {"1x2,1x2,2x1", "1x4,1x2,2x1", "2x2,1x2,2x1", "2x1,1x2,1x4"}) {
    const auto matrix = parse_parallelism_matrix(text);
    Network network = small();
    network.levels[0].size = matrix.level_size(0);
    network.levels[1].size = matrix.level_size(1);
    const auto best = [&](AxisCollapse collapse) {
      const auto hierarchy = synthesis_hierarchy(matrix, std::vector<int>{0, 2}, collapse);
      double least = std::numeric_limits<double>::infinity();
      for (const auto& program : synthesize(hierarchy.sizes, {}))
        least = std::min(least, simulate_reduction(network, lower(program, hierarchy), 1000).seconds);
      return least;
    };
    EXPECT_LE(best(AxisCollapse::hardware), best(AxisCollapse::paper)) << text;
  }
}

}  // namespace
}  // namespace axonn
