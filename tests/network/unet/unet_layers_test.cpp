#include <gtest/gtest.h>

#include <algorithm>

#include "axonn/network/unet/unet_memory.hpp"
#include "axonn/network/unet/unet_network.hpp"
#include "axonn/network/unet/unet_presets.hpp"
#include "axonn/perfmodel/search/grid_search.hpp"
#include "network/unet/unet_layers.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

const UnetShape kShape = find_unet_preset("unet2b").shape;
const LayerTable kTable = layer_table(kShape);

const LayerWork& row(std::string_view name) {
  const auto found = std::ranges::find(kTable, name, &LayerWork::name);
  EXPECT_NE(found, kTable.end()) << name;
  return *found;
}

AxisLinks links_of(const GridShape& grid, double gbps) {
  AxisLinks links;
  for (const Axis axis : kAxes) links[static_cast<size_t>(axis)] = ring_link(grid[axis], gbps);
  return links;
}

TEST(UnetLayers, HoldEveryWeight) {
  for (const UnetPreset& preset : unet_presets()) {
    const UnetShape& shape = preset.shape;
    double weights = 0;
    for (const LayerWork& layer : layer_table(shape)) weights += static_cast<double>(layer.count) * layer.weights();
    int64_t vectors = 2 * shape.embedding();  // biases and norms
    for (const UnetStage& stage : unet_stages(shape)) {
      using Kind = UnetStage::Kind;
      const int64_t scaled = shape.scale_shift ? 2 : 1;
      if (stage.kind == Kind::residual)
        vectors += 2 * stage.in + (4 + scaled + (stage.in == stage.out ? 0 : 1)) * stage.out;
      else if (stage.kind == Kind::attention)
        vectors += 6 * stage.in;
      else
        vectors += stage.out + (stage.kind == Kind::last ? 2 * stage.in : 0);
    }
    EXPECT_EQ(static_cast<int64_t>(weights) + vectors, count_parameters(shape)) << preset.name;
  }
}

TEST(UnetLayers, MergeEqualOnes) {
  EXPECT_LT(kTable.size(), 100U);
  EXPECT_EQ(row("residual.out 32x32").count, 7);
  EXPECT_EQ(row("first 32x32").count, 1);
}

TEST(UnetLayers, TakeTurnsInTheRolesOfXAndY) {
  EXPECT_FALSE(row("residual.in 32x32").transposed);  // stream over Y: Y to X
  EXPECT_TRUE(row("residual.out 32x32").transposed);
  EXPECT_FALSE(row("down 32x32").transposed);
  EXPECT_TRUE(row("residual.in 16x16").transposed);
  EXPECT_EQ(row("attention.attention 16x16").split, WorkSplit::over_y);
  EXPECT_EQ(row("attention.attention 8x8").split, WorkSplit::over_x);
}

TEST(UnetLayers, SumPixelsOfTheirOutputForwardAndOfTheirInputBackward) {
  const GridShape grid = {.x = 2, .y = 4};
  const auto links = links_of(grid, 100);
  const auto seconds = [&](std::string_view name) { return layer_collectives(row(name), grid, links, 8, 2, 4); };
  // 768 x 768 at 32 x 32 to 16 x 16, 8 images of 2 bytes: out over X, in over Y.
  EXPECT_DOUBLE_EQ(seconds("down 32x32").all_reduce_forward, 2 * (3 / 4.) * 8 * 256 * 768 / 2 * 2 / 100e9);
  EXPECT_DOUBLE_EQ(seconds("down 32x32").all_reduce_backward, 2 * (1 / 2.) * 8 * 1024 * 768 / 4 * 2 / 100e9);
  // The convolution on the way up takes the doubled images.
  EXPECT_DOUBLE_EQ(seconds("up 16x16").all_reduce_backward, 2 * (3 / 4.) * 8 * 1024 * 1536 / 2 * 2 / 100e9);
}

TEST(UnetLayers, SumNothingAtTheImage) {
  const GridShape grid = {.x = 2, .y = 2, .z = 2};
  const auto links = links_of(grid, 100);
  const LayerWork &first = row("first 32x32"), &last = row("last 32x32");
  const auto of_first = layer_collectives(first, grid, links, 8, 2, 4),
             of_last = layer_collectives(last, grid, links, 8, 2, 4);
  EXPECT_EQ(of_first.all_reduce_forward + of_first.all_reduce_backward, 0);
  EXPECT_EQ(of_last.all_reduce_backward, 0);
  EXPECT_DOUBLE_EQ(of_last.all_reduce_forward, 8. * 1024 * 3 * 2 / 100e9);
  EXPECT_EQ(layer_buffers(first, grid, 8).block, 9 * 3 * 768 / 2);
  const Machine machine = find_machine("perlmutter");
  EXPECT_DOUBLE_EQ(layer_forward_seconds(last, {}, machine, 1, {}) / layer_forward_seconds(last, grid, machine, 1, {}),
                   2);
}

TEST(UnetLayers, ExchangeStatisticsWhereAGroupIsCut) {
  // 4 channels per group.
  const LayerWork norm = {.name = "norm", .split = WorkSplit::over_y, .norm_groups = 32, .segments = {96, 32}};
  EXPECT_FALSE(splits_a_group(norm, {.x = 8}));
  EXPECT_FALSE(splits_a_group(norm, {.y = 8}));  // 12 and 4 channels per rank
  EXPECT_TRUE(splits_a_group(norm, {.y = 16}));  // 6 and 2
  const GridShape grid = {.y = 16};
  const auto seconds = layer_exchanges(norm, grid, links_of(grid, 10), 8, 2, 4);
  EXPECT_DOUBLE_EQ(seconds.forward, 15 / 16. * 2 * 8 * 128 * 4 / 10e9);
  EXPECT_DOUBLE_EQ(seconds.backward, 2 * 15 / 16. * 2 * 8 * 32 * 4 / 10e9);
}

TEST(UnetLayers, BringShortcutsBackToTheirAxis) {
  const GridShape grid = {.x = 2, .y = 4};
  const auto links = links_of(grid, 10);
  const auto seconds = layer_exchanges(row("residual.shortcut moved 32x32"), grid, links, 8, 2, 4);
  const double bytes = 4 * 8. * 1024 * 768 * 2;  // four blocks on the way up
  EXPECT_DOUBLE_EQ(seconds.forward, 1 / 2. * bytes / 10e9);
  EXPECT_DOUBLE_EQ(seconds.backward, 3 / 4. * bytes / 10e9);
}

TEST(UnetMemory, IsDividedByTheAxisOfTheChannels) {
  const MemoryOptions options = {.micro_batch = 4, .element_bytes = 2, .gradient_bytes = 4, .state_bytes = 4};
  const auto one = predict_memory(kShape, {}, options), x = predict_memory(kShape, {.x = 2}, options),
             y = predict_memory(kShape, {.y = 2}, options);
  EXPECT_NEAR(static_cast<double>(x.activation_bytes + y.activation_bytes) / static_cast<double>(one.activation_bytes),
              1.5, 1e-9);
  EXPECT_LT(y.activation_bytes, x.activation_bytes);  // the widest images are over Y
  EXPECT_EQ(predict_memory(kShape, {.z = 4}, options).activation_bytes, one.activation_bytes);
  // Ranges are padded to 32 elements.
  EXPECT_NEAR(static_cast<double>(one.weight_bytes), 6. * static_cast<double>(count_parameters(kShape)), 1e5);
}

TEST(UnetMemory, OfCheckpointedBlocksIsTheirInputs) {
  const UnetShape shape = {.image = 8, .base = 32, .multipliers = {1, 2}, .blocks = 1, .attention = {4}, .heads = 4};
  const auto kept = [&](int64_t every) {
    return predict_memory(shape, {}, {.element_bytes = 1, .checkpoint_every = every}).activation_bytes;
  };
  int64_t all = 0, inputs = 0, largest = 0, last = 0;
  for (const UnetStage& stage : unet_stages(shape)) {
    const int64_t pixels = stage.size * stage.size, in = pixels * stage.in, out = pixels * stage.out;
    if (stage.kind == UnetStage::Kind::first) continue;
    if (stage.kind == UnetStage::Kind::last) {
      last = 3 * in;
      continue;
    }
    const int64_t one = stage.kind == UnetStage::Kind::residual    ? 3 * in + 3 * out
                        : stage.kind == UnetStage::Kind::attention ? 6 * in + pixels * 4
                        : stage.kind == UnetStage::Kind::up        ? 4 * in
                                                                   : in;
    all += one;
    inputs += in;
    largest = std::max(largest, one);
  }
  EXPECT_EQ(kept(0), all + last);
  EXPECT_EQ(kept(1), inputs + largest + last);
  EXPECT_LT(kept(2), kept(0));
  EXPECT_GT(kept(2), kept(1));
}

TEST(UnetSearch, IsDeterministicAndPruningChangesNothing) {
  const auto model = network_model("unet1b", find_unet_preset("unet1b").shape);
  const Machine machine = find_machine("perlmutter");
  SearchOptions options = {.gpus = 64, .batch_tokens = 2048, .top = 9};
  const auto fast = search_grids(model, machine, options);
  options.prune = false;
  const auto all = search_grids(model, machine, options);
  ASSERT_EQ(fast.layouts.size(), all.layouts.size());
  EXPECT_LT(fast.evaluated, all.evaluated);
  for (size_t i = 0; i < all.layouts.size(); ++i) {
    EXPECT_EQ(fast.layouts[i].grid, all.layouts[i].grid);
    EXPECT_EQ(fast.layouts[i].value, all.layouts[i].value);
    EXPECT_EQ(fast.layouts[i].recompute, all.layouts[i].recompute);
  }
  options.checkpointing = Checkpointing::on;
  for (const PlannedLayout& layout : search_grids(model, machine, options).layouts) EXPECT_TRUE(layout.checkpoint());
}

}  // namespace
}  // namespace axonn
