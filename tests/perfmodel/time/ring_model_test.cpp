#include "axonn/network/decoder/decoder_network.hpp"
#include "axonn/perfmodel/time/ring_model.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "axonn/core/error.hpp"
#include "axonn/network/decoder/decoder_presets.hpp"

namespace axonn {
namespace {

const Machine kPerlmutter = find_machine("perlmutter");
constexpr double k64kTokens = 65536, k4MTokens = 4194304;

// Equations 4 to 9 as printed, for one layer; element size 2.
double literal(const GridShape& g, const LayerWork& layer, double m, double bx, double by, double bz, double bdata) {
  double gx = g.x, gy = g.y;
  if (layer.transposed) {
    std::swap(gx, gy);
    std::swap(bx, by);
  }
  const double gz = g.z, gd = g.data, k = static_cast<double>(layer.k), n = static_cast<double>(layer.n), e = 2;
  m /= gd;
  const double gather = 1 / bz * (gz - 1) * (k * n * e) / (gx * gy * gz);
  const double scatter = 1 / bz * ((gz - 1) / gz) * (k * n * e) / (gx * gy);
  const double forward = 2 / by * ((gy - 1) / gy) * (m * n * e) / (gz * gx);
  const double backward = 2 / bx * ((gx - 1) / gx) * (m * k * e) / (gz * gy);
  const double data = 2 / bdata * ((gd - 1) / gd) * (k * n * e) / (gx * gy * gz);
  return gather + scatter + forward + backward + data;
}

double seconds(std::string_view model, const GridShape& grid, double tokens, BandwidthMode mode = BandwidthMode::aware,
               Coefficients coefficients = Coefficients::paper) {
  const auto sizes = level_sizes(kPerlmutter, grid.ranks());
  const AxisLinks links = ordered_links(mode, grid, kDefaultOrder, kPerlmutter, sizes, /*latency=*/false);
  return published_collectives(layer_table(find_decoder_preset(model).shape), grid, links, tokens, 2, coefficients)
      .total();
}

double gbps(const AxisLinks& links, Axis axis) { return link_of(links, axis).gbps; }

TEST(RingModel, IsEquations1To9AsPrinted) {
  for (const LayerWork& layer : layer_table(find_decoder_preset("gpt5b").shape)) {
    if (!layer.in_block || !layer.has_weight()) continue;
    for (const GridShape& grid :
         {GridShape{.x = 2, .y = 4, .z = 8, .data = 3}, GridShape{.x = 1, .y = 5, .z = 1, .data = 7}}) {
      const AxisLinks links = {ring_link(grid.x, 10), ring_link(grid.y, 20), ring_link(grid.z, 30),
                               ring_link(grid.data, 40)};
      const double tokens = k64kTokens / (grid.z * grid.data);
      const double expected =
          static_cast<double>(layer.count) * literal(grid, layer, k64kTokens, 10e9, 20e9, 30e9, 40e9);
      EXPECT_NEAR(layer_collectives(layer, grid, links, tokens, 2, 2).total() / expected, 1, 1e-12) << layer.name;
    }
  }
}

struct Golden {
  GridShape grid;
  double seconds;
};

TEST(RingModel, AwareGivesTheGoldenSecondsOfGpt20bOn32Gpus) {
  for (const auto& [grid, golden] :
       {Golden{{1, 1, 32, 1}, .7645}, Golden{{2, 1, 16, 1}, .7775}, Golden{{4, 1, 4, 2}, .8033},
        Golden{{4, 1, 8, 1}, .8033}, Golden{{8, 1, 2, 2}, .8221}, Golden{{8, 1, 4, 1}, .8221},
        Golden{{2, 1, 8, 2}, .8268}, Golden{{1, 1, 16, 2}, .8385}})
    EXPECT_NEAR(seconds("gpt20b", grid, k64kTokens), golden, 5e-5) << grid.to_string();
}

TEST(RingModel, AwareGivesTheGoldenSecondsOfGpt80bOn1024Gpus) {
  for (const auto& [grid, golden] :
       {Golden{{1, 1, 1024, 1}, 3.0411}, Golden{{1, 1, 512, 2}, 3.0500}, Golden{{1, 1, 256, 4}, 3.0678},
        Golden{{1, 1, 128, 8}, 3.1035}, Golden{{1, 1, 64, 16}, 3.1749}, Golden{{2, 1, 512, 1}, 3.2072}})
    EXPECT_NEAR(seconds("gpt80b", grid, k4MTokens), golden, 5e-5) << grid.to_string();
}

TEST(RingModel, AgnosticDoesNotTellZFromData) {
  for (const GridShape& grid : {GridShape{2, 2, 8, 1}, GridShape{1, 4, 2, 4}, GridShape{4, 2, 1, 4}}) {
    GridShape swapped = grid;
    std::swap(swapped.z, swapped.data);
    const double ours = seconds("gpt20b", grid, k64kTokens, BandwidthMode::agnostic);
    EXPECT_NEAR(seconds("gpt20b", swapped, k64kTokens, BandwidthMode::agnostic) / ours, 1, 1e-12) << grid.to_string();
  }
}

TEST(RingModel, Equation10SharesTheNodesLinkAmongRings) {
  const GridShape grid = {.x = 2, .y = 4, .z = 2, .data = 2};
  const auto sizes = level_sizes(kPerlmutter, 32);
  const auto links = ordered_links(BandwidthMode::aware, grid, kDefaultOrder, kPerlmutter, sizes, false);
  EXPECT_EQ(gbps(links, Axis::x), 200);       // 2 <= 4: within a node
  EXPECT_EQ(gbps(links, Axis::y), 100 / 2.);  // two rings leave a node
  EXPECT_EQ(gbps(links, Axis::z), 100 / 4.);  // at most one ring per GPU of a node
  EXPECT_EQ(gbps(links, Axis::data), 100 / 4.);
  const auto other = ordered_links(BandwidthMode::aware, grid, parse_axis_order("yxzd"), kPerlmutter, sizes, false);
  EXPECT_EQ(gbps(other, Axis::y), 200);
  EXPECT_EQ(gbps(other, Axis::x), 100 / 4.);
}

TEST(RingModel, TheLeastLinkOfAnAxisIsTheLeastOfItsPlacements) {
  for (const char* name : {"perlmutter", "frontier", "workstation"}) {
    const Machine machine = find_machine(name);
    const int64_t gpus = std::string_view(name) == "workstation" ? 8 : 96;
    const auto sizes = level_sizes(machine, gpus);
    for (const GridShape& grid : factorisations(gpus))
      for (const bool latency : {false, true})
        for (const Axis axis : kAxes) {
          const AxisLink least = least_link(grid[axis], sizes, machine, /*multi_level=*/true, latency);
          const auto expect_least = [&](double AxisLink::* part) {
            double expected = std::numeric_limits<double>::infinity();
            for (const AxisPlacement& placement : placements(grid, sizes)) {
              const AxisLinks links = placed_links(placement, machine, /*multi_level=*/true, latency);
              expected = std::min(expected, link_of(links, axis).*part);
            }
            EXPECT_EQ(least.*part, expected) << name << " " << grid.to_string() << " " << to_string(axis);
          };
          expect_least(&AxisLink::seconds_per_byte);
          expect_least(&AxisLink::latency_seconds);
          expect_least(&AxisLink::ll128_latency_seconds);
          expect_least(&AxisLink::tree_seconds_per_byte);
          expect_least(&AxisLink::tree_latency_seconds);
        }
  }
}

TEST(RingModel, MeasuredReadsTheAuthorsTable) {
  const auto at = [](int64_t inner, int64_t size) { return kPerlmutter.measured_gbps(inner, size); };
  EXPECT_EQ(at(1, 2), 76);
  EXPECT_EQ(at(1, 4), 225);
  EXPECT_EQ(at(1, 8), 80);
  EXPECT_EQ(at(1, 1024), 80);
  EXPECT_EQ(at(2, 2), 76);
  EXPECT_EQ(at(2, 4), 40);
  EXPECT_EQ(at(4, 2), 20);
  EXPECT_EQ(at(64, 16), 20);
  const Machine frontier = find_machine("frontier");
  EXPECT_EQ(frontier.measured_gbps(1, 8), 135);
  EXPECT_EQ(frontier.measured_gbps(1, 16), 40);
  EXPECT_EQ(frontier.measured_gbps(2, 4), 72);
  EXPECT_EQ(frontier.measured_gbps(4, 8), 10);
  EXPECT_EQ(frontier.measured_gbps(32, 2), 5);
  Machine bare = kPerlmutter;
  bare.measured.clear();
  EXPECT_THROW(bare.measured_gbps(1, 2), UserError);
}

TEST(RingModel, AuthorsCountTheGatherForwardAllReduceAndDataTwice) {
  const auto ratio = [](const GridShape& grid) {
    return seconds("gpt5b", grid, k64kTokens, BandwidthMode::aware, Coefficients::authors) /
           seconds("gpt5b", grid, k64kTokens);
  };
  EXPECT_NEAR(ratio({.z = 8}), 1.5, 1e-12);
  EXPECT_NEAR(ratio({.data = 8}), 2, 1e-12);
  EXPECT_NEAR(ratio({.x = 4}), 1.5, 1e-12);  // 2 h forward of the transposed layers, 2 h backward of the plain ones
}

TEST(RingModel, ExactIsEquation10WhereThatIsDefined) {
  for (const GridShape& grid : factorisations(32)) {
    const auto sizes = level_sizes(kPerlmutter, 32);
    const auto placement = placement_of_order(grid, kDefaultOrder, sizes);
    ASSERT_TRUE(placement);
    const auto exact = placed_links(*placement, kPerlmutter, /*multi_level=*/false, false);
    const auto aware = ordered_links(BandwidthMode::aware, grid, kDefaultOrder, kPerlmutter, sizes, false);
    std::vector<int> nodes(32);
    for (int rank = 0; rank < 32; ++rank) nodes[static_cast<size_t>(rank)] = rank / 4;
    const auto counted = counted_links(Grid(grid), nodes, kPerlmutter, false);
    for (const Axis axis : kAxes) {
      EXPECT_EQ(gbps(counted, axis), gbps(exact, axis)) << grid.to_string() << " " << to_string(axis);
      EXPECT_EQ(gbps(exact, axis), gbps(aware, axis)) << grid.to_string() << " " << to_string(axis);
    }
  }
}

TEST(RingModel, ExactCountsRingsOfUnevenNodesAndOfNodesThatEndWithinAnAxis) {
  std::vector<int> nodes = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
  const auto links = counted_links(Grid({.x = 3, .y = 4}), nodes, kPerlmutter, false);
  EXPECT_EQ(gbps(links, Axis::x), 100 / 2.);  // rings of ranks 3 4 5 and 6 7 8: both leave node 1
  EXPECT_EQ(gbps(links, Axis::y), 100 / 3.);
  nodes = {0, 0, 1, 1, 1, 1};
  const auto uneven = counted_links(Grid({.x = 2, .y = 3}), nodes, kPerlmutter, false);
  EXPECT_EQ(gbps(uneven, Axis::x), 200);
  EXPECT_EQ(gbps(uneven, Axis::y), 100 / 2.);
  EXPECT_THROW(counted_links(Grid({.x = 2}), nodes, kPerlmutter, false), UserError);
}

TEST(RingModel, ACollectiveLevelByLevelIsReduceScatterAllReduceAllGather) {
  const AxisPlacement placement = {{{.x = 2, .z = 2}, {.x = 2, .z = 4}}};
  const AxisLink x = link_of(placed_links(placement, kPerlmutter, true, false), Axis::x);
  const double bytes = 1e9, inside = 2 * bytes * (1 / 2.) / 200e9, among = 2 * (bytes / 2) * (1 / 2.) / (100e9 / 4);
  EXPECT_TRUE(x.multi_level);
  EXPECT_NEAR(x.all_reduce_seconds(bytes), inside + among, 1e-12);
  EXPECT_LT(x.all_reduce_seconds(bytes),
            link_of(placed_links(placement, kPerlmutter, false, false), Axis::x).all_reduce_seconds(bytes));
}

TEST(RingModel, LatencyIsThatOfTheHops) {
  const AxisPlacement placement = {{{.z = 4}, {.z = 8}}};
  const double hops = 24 * 3.4e-6 + 7 * 14e-6;  // 31 hops
  EXPECT_NEAR(link_of(placed_links(placement, kPerlmutter, false, true), Axis::z).latency_seconds, hops, 1e-12);
  const auto sizes = level_sizes(kPerlmutter, 32);
  const auto ordered = ordered_links(BandwidthMode::aware, {.z = 32}, kDefaultOrder, kPerlmutter, sizes, true);
  EXPECT_NEAR(link_of(ordered, Axis::z).latency_seconds, hops, 1e-12);
  std::vector<int> nodes(32);
  for (int rank = 0; rank < 32; ++rank) nodes[static_cast<size_t>(rank)] = rank / 4;
  EXPECT_NEAR(link_of(counted_links(Grid({.z = 32}), nodes, kPerlmutter, true), Axis::z).latency_seconds, hops, 1e-12);
}

// NCCL's choice: an all-reduce over many nodes takes trees while it is small, else a ring.
TEST(RingModel, SmallAllReducesOverManyNodesTakeTrees) {
  const Machine a100 = find_machine("dgx-a100");
  const AxisPlacement placement = {{{.data = 8}, {.data = 512}}};
  const AxisLink link = link_of(placed_links(placement, a100, false, true), Axis::data);
  EXPECT_NEAR(link.tree_latency_seconds, 2 * (7 * 1.25e-6 + 9 * 8.5e-6), 1e-12);
  EXPECT_DOUBLE_EQ(link.all_reduce_seconds(0), link.tree_latency_seconds);
  EXPECT_DOUBLE_EQ(link.tree_seconds_per_byte * 0.92 * 120 / 128 * 4095 / 4096, 2 * link.seconds_per_byte);
  EXPECT_LT(link.all_reduce_seconds(25 << 20), 2 * link.gather_seconds(25 << 20));
  EXPECT_DOUBLE_EQ(link.all_reduce_seconds(1e11), 2 * link.gather_seconds(1e11));
  // Five nodes need three levels of a tree; two GPUs in each are a chain.
  const AxisLink odd = link_of(placed_links({{{.x = 4, .data = 2}, {.data = 5}}}, a100, false, true), Axis::data);
  EXPECT_NEAR(odd.tree_latency_seconds, 2 * (1.25e-6 + 3 * 8.5e-6), 1e-12);
  std::vector<int> nodes(40);
  for (int rank = 0; rank < 40; ++rank) nodes[static_cast<size_t>(rank)] = rank / 8;
  const auto counted = counted_links(Grid({.x = 4, .data = 10}), nodes, a100, true);
  EXPECT_NEAR(link_of(counted, Axis::data).tree_latency_seconds, odd.tree_latency_seconds, 1e-12);
  const auto sizes = level_sizes(a100, 40);
  const auto ordered = ordered_links(BandwidthMode::aware, {.x = 4, .data = 10}, kDefaultOrder, a100, sizes, true);
  EXPECT_NEAR(link_of(ordered, Axis::data).tree_latency_seconds, odd.tree_latency_seconds, 1e-12);
  Machine rings = a100;  // both levels must have trees
  rings.levels[1].tree_latency_seconds = 0;
  const AxisLink plain = link_of(placed_links(placement, rings, false, true), Axis::data);
  EXPECT_DOUBLE_EQ(plain.all_reduce_seconds(0), 2 * plain.gather_seconds(0));
  // The paper's equations know only rings.
  const AxisLink paper = link_of(placed_links(placement, a100, false, false), Axis::data);
  EXPECT_DOUBLE_EQ(paper.all_reduce_seconds(1e6), 2 * 1e6 * paper.seconds_per_byte);
}

TEST(RingModel, NeighboursOfAnAxisFillUnitsFirst) {
  const AxisLink node = neighbours_link({{{.z = 4}, {.z = 8}}}, Axis::z, 4, kPerlmutter),
                 two = neighbours_link({{{.z = 4}, {.z = 8}}}, Axis::z, 8, kPerlmutter),
                 shared = neighbours_link({{{.x = 2, .z = 2}, {.z = 16}}}, Axis::z, 4, kPerlmutter);
  EXPECT_EQ(node.gbps, 200);
  EXPECT_NEAR(node.latency_seconds, 3 * 3.4e-6, 1e-12);
  EXPECT_EQ(two.gbps, 100);
  EXPECT_NEAR(two.latency_seconds, 6 * 3.4e-6 + 14e-6, 1e-12);
  EXPECT_EQ(shared.gbps, 100 / 2.);  // two rings of each node
  EXPECT_EQ(neighbours_link({{{.z = 4}, {.z = 8}}}, Axis::z, 1, kPerlmutter).gather_seconds(1e9), 0);
}

TEST(RingModel, NamesAreThoseOfItsModesAlone) {
  EXPECT_EQ(parse_name<BandwidthMode>("measured", "a mode"), BandwidthMode::measured);
  EXPECT_EQ(parse_name<Coefficients>("authors", "coefficients"), Coefficients::authors);
  EXPECT_THROW((parse_name<BandwidthMode>("awar", "a mode")), UserError);
  EXPECT_THROW(parse_name<Coefficients>("ours", "coefficients"), UserError);
}

// NCCL's choice: small messages take LL128, large ones Simple. With Simple only, the hops of a
// gather over 512 H100 last twice as long.
TEST(RingModel, SmallMessagesTakeTheProtocolWithShortHops) {
  const Machine h100 = find_machine("dgx-h100");
  const AxisPlacement placement = {{{.z = 8}, {.z = 64}}};
  const AxisLink link = link_of(placed_links(placement, h100, false, true), Axis::z);
  EXPECT_NEAR(link.latency_seconds, 448 * 3.4e-6 + 63 * 14e-6, 1e-9);
  EXPECT_NEAR(link.ll128_latency_seconds, 448 * 1.9e-6 + 63 * 4e-6, 1e-9);
  EXPECT_DOUBLE_EQ(link.gather_seconds(0), link.ll128_latency_seconds);
  EXPECT_DOUBLE_EQ(link.gather_seconds(1e10), 1e10 * link.seconds_per_byte + link.latency_seconds);
  EXPECT_DOUBLE_EQ(link.gather_seconds(1e6), 1e6 * 128 / 120 * link.seconds_per_byte + link.ll128_latency_seconds);
  Machine simple = h100;
  for (MachineLevel& level : simple.levels) level.ll128_latency_seconds = 0;
  const AxisLink plain = link_of(placed_links(placement, simple, false, true), Axis::z);
  EXPECT_DOUBLE_EQ(plain.gather_seconds(0), plain.latency_seconds);
  simple.levels[0].ll128_latency_seconds = 1e-6;  // the network has no such protocol, a ring within a node needs none
  EXPECT_DOUBLE_EQ(link_of(placed_links({{{.z = 8}}}, simple, false, true), Axis::z).ll128_latency_seconds, 7e-6);
}

}  // namespace
}  // namespace axonn
