#include "axonn/network/decoder/decoder_network.hpp"
#include "axonn/perfmodel/time/step_model.hpp"

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/network/decoder/decoder_presets.hpp"
#include "axonn/perfmodel/search/grid_search.hpp"

namespace axonn {
namespace {

const Machine kPerlmutter = find_machine("perlmutter");
const DecoderShape kShape = find_decoder_preset("gpt5b").shape;
const LayerTable kTable = layer_table(kShape);

StepTime step(const GridShape& grid, StepSettings settings, double gbps = 20) {
  settings.batch_tokens = 1 << 19;
  AxisLinks links;
  for (const Axis axis : kAxes) links[static_cast<size_t>(axis)] = ring_link(grid[axis], gbps);
  return predict_step(kTable, grid, links, kPerlmutter, settings);
}

struct Row {
  const char* model;
  int64_t gpus;
  double utilisation;
};

// Table III, with activation checkpointing as in the paper, with its table of measured bandwidths
// and with those of the data sheet. One set of machine constants (machine_presets.cpp) for both.
TEST(StepModel, ComesWithin5PointsOfTheFiveWeakScalingPoints) {
  for (const BandwidthMode mode : {BandwidthMode::measured, BandwidthMode::exact})
    for (const auto& [model, gpus, utilisation] :
         {Row{"gpt5b", 64, .67}, Row{"gpt10b", 128, .63}, Row{"gpt20b", 256, .67}, Row{"gpt40b", 512, .64},
          Row{"gpt80b", 1024, .57}}) {
      const auto network = network_model(model, find_decoder_preset(model).shape);
      const auto best =
          search_grids(network, kPerlmutter, {.gpus = gpus, .mode = mode, .checkpointing = Checkpointing::on, .top = 1})
              .layouts.front();
      EXPECT_NEAR(best.hardware_utilisation, utilisation, 0.05)
          << model << " " << to_string(mode) << " " << best.grid.to_string();
      RecordProperty(detail::concatenate(model, "_", to_string(mode)), detail::concatenate(best.hardware_utilisation));
    }
}

TEST(StepModel, HardwareFlopsAreThePapers) {
  const double again = hardware_flops_per_token(kTable, Recomputation::blocks);
  EXPECT_NEAR(again * static_cast<double>(kShape.sequence) / checkpointed_flops(kShape, 1), 1, 1e-12);
  EXPECT_NEAR(hardware_flops_per_token(kTable, Recomputation::none) / model_flops_per_token(kShape), 1, 1e-12);
}

TEST(StepModel, DividesProductsOverXYAttentionOverXAndNormsOverY) {
  const auto part = [](std::string_view name, const GridShape& grid) {
    for (const LayerWork& layer : kTable)
      if (layer.name == name)
        return layer_forward_seconds(layer, {}, kPerlmutter, 1, {}) /
               layer_forward_seconds(layer, grid, kPerlmutter, 1, {});
    return 0.0;
  };
  const GridShape grid = {.x = 2, .y = 8, .z = 4, .data = 4};  // Z and data split the rows: the caller passes a rank's
  EXPECT_DOUBLE_EQ(part("qkv", grid), 16);
  EXPECT_DOUBLE_EQ(part("attention", grid), 2);
  EXPECT_DOUBLE_EQ(part("norm 1", grid), 8);
  EXPECT_DOUBLE_EQ(part("residual 2", grid), 8);
  EXPECT_DOUBLE_EQ(part("gelu", grid), 2);
}

// GPT-5B has 24 blocks with 4096 features of queries and 8192 of keys and values per token.
TEST(StepModel, DividedRowsOfQueriesSaveScoresAndMoveOutputsAndGradients) {
  const GridShape grid = {.x = 2, .y = 4};
  for (const LayerWork& layer : kTable) {
    const double saved = layer_forward_seconds(layer, grid, kPerlmutter, 1, {}) -
                         layer_forward_seconds(layer, grid, kPerlmutter, 1, {.attention_rows = true});
    const double scores = layer.flops / (kPerlmutter.peak_flops(Precision::bf16) * kPerlmutter.attention_efficiency);
    EXPECT_NEAR(saved, layer.name == "attention" ? scores / 2 * 3 / 4 : 0, 1e-6 * scores) << layer.name;
  }
  AxisLinks links;
  links[static_cast<size_t>(Axis::y)] = ring_link(4, 20);
  const double tokens = 1 << 19, half = ring_link(4, 20).gather_seconds(tokens * 4096 / 2 / 2 * 2),
               sums = ring_link(4, 20).all_reduce_seconds(tokens * 8192 / 2 * 2);
  const auto waited = [&](bool rows, Recomputation recompute) {
    const StepSettings settings = {.batch_tokens = tokens, .recompute = recompute, .attention_rows = rows};
    return predict_step(kTable, grid, links, kPerlmutter, settings).exposed_all_reduce;
  };
  EXPECT_NEAR(waited(true, Recomputation::none) - waited(false, Recomputation::none), 24 * (4 * half + sums), 1e-6);
  EXPECT_NEAR(waited(true, Recomputation::blocks) - waited(false, Recomputation::blocks), 24 * (6 * half + sums), 1e-6);
}

// GPT-5B has 24 blocks with two layers that read the stream of 4096 features. For each of them and
// the head, backward waits for the gathering half of a sum, which dW's product hid before, and
// gathers an input. Half of the devices of this machine are taken by a collective.
TEST(StepModel, DividedRowsOfTheStreamAreGatheredInBackward) {
  Machine machine = kPerlmutter;
  machine.collective_share = 0.5;
  const GridShape grid = {.x = 4, .y = 2};
  AxisLinks links;
  links[static_cast<size_t>(Axis::x)] = ring_link(4, 200);
  const double tokens = 1 << 19, gather = ring_link(4, 200).gather_seconds(tokens * 4096 / 2 * 2);
  const auto predicted = [&](bool rows) {
    return predict_step(kTable, grid, links, machine,
                        {.batch_tokens = tokens, .recompute = Recomputation::none, .norm_rows = rows});
  };
  const StepTime whole = predicted(false), divided = predicted(true);
  const double layers = 2 * 24 + 1;
  EXPECT_NEAR(divided.communication.all_reduce_backward - whole.communication.all_reduce_backward, layers * gather,
              1e-6);
  EXPECT_NEAR(divided.exposed_all_reduce - whole.exposed_all_reduce, layers * gather, 1e-6);
  EXPECT_EQ(divided.communication.all_reduce_forward, whole.communication.all_reduce_forward);
  EXPECT_LT(divided.forward, whole.forward);
}

TEST(StepModel, KernelsStartForEveryEntryOfTheTableInEveryPass) {
  Machine slow = kPerlmutter;
  slow.kernel_seconds = 1e-3;
  double entries = 0, again = 0;
  for (const LayerWork& layer : kTable) {
    entries += static_cast<double>(layer.count);
    if (layer.in_block) again += static_cast<double>(layer.count);
  }
  const StepSettings settings = {.batch_tokens = 1 << 19, .micro_batches = 4, .recompute = Recomputation::blocks};
  const auto compute = [&](const Machine& machine) {
    return predict_step(kTable, {}, {}, machine, settings).compute();
  };
  EXPECT_NEAR(compute(slow) - compute(kPerlmutter), 4 * 1e-3 * (3 * entries + again), 1e-6);
}

TEST(StepModel, RunsAgainWhatTheRecomputationSays) {
  const auto names = [](Recomputation recompute) {
    std::string text;
    for (size_t i = 0; i < kTable.size(); ++i)
      if (runs_again(kTable, i, recompute)) text += kTable[i].name + ";";
    return text;
  };
  EXPECT_EQ(names(Recomputation::none), "");
  EXPECT_EQ(names(Recomputation::attention), "attention;");
  const std::string up_to_gelu =
      "norm 1;qkv;qkv bias;attention;projection;residual 1;norm 2;up;gelu;";  // qkv bias: GPT-2 has biases
  EXPECT_EQ(names(Recomputation::stopped), up_to_gelu);
  EXPECT_EQ(names(Recomputation::blocks), up_to_gelu + "down;residual 2;");
}

TEST(StepModel, NormsWhoseRowsAreDividedAreDividedOverXToo) {
  for (const LayerWork& layer : kTable) {
    const GridShape grid = {.x = 4, .y = 2};
    const double whole = layer_forward_seconds(layer, grid, kPerlmutter, 1, {});
    if (whole == 0) continue;  // a lookup
    EXPECT_NEAR(whole / layer_forward_seconds(layer, grid, kPerlmutter, 1, {.norm_rows = true}),
                layer.split == WorkSplit::over_y ? 4 : 1, 1e-12)
        << layer.name;
  }
}

TEST(StepModel, APipelineWaitsForItsFirstAndLastMicroBatches) {
  const StepTime one = step({}, {.micro_batches = 8});
  for (const int64_t chunks : {1, 2}) {
    const StepTime four = step({}, {.micro_batches = 8, .stages = 4, .virtual_stages = chunks});
    EXPECT_NEAR(four.bubble, 3.0 / 8 / static_cast<double>(chunks) * (one.forward + one.backward), 1e-9);
    EXPECT_NEAR(four.seconds() - four.bubble, one.seconds(), 1e-9);
  }
}

// GPT-5B has 24 blocks with 2 x 4096 elements of keys and values per token.
TEST(StepModel, KeysAndValuesOfAContextPassBesideAttentionOrAreGatheredBefore) {
  const auto divided = [](double gbps, bool gathers, Recomputation recompute, OverlapSwitches overlap = {}) {
    return step({.z = 8}, {.recompute = recompute,
                           .overlap = overlap,
                           .context = {.ranks = 8, .gathers = gathers},
                           .context_link = ring_link(8, gbps)});
  };
  const double once = 24 * ring_link(8, 20).gather_seconds((1 << 19) * 2.0 * 4096 * 2);
  const StepTime plain = step({.z = 8}, {.recompute = Recomputation::none});
  EXPECT_EQ(plain.communication.context, 0);
  EXPECT_EQ(plain.exposed_context, 0);
  for (const auto& [recompute, times] : {std::pair{Recomputation::none, 3.0}, {Recomputation::blocks, 4.0}}) {
    const StepTime gathered = divided(20, true, recompute), passed = divided(20, false, recompute);
    EXPECT_NEAR(gathered.communication.context, times * once, 1e-9);
    EXPECT_NEAR(passed.communication.context, times * once, 1e-9);
    EXPECT_NEAR(gathered.exposed_context, times * once, 1e-9);
    EXPECT_NEAR(divided(20, false, recompute, OverlapSwitches::none()).exposed_context, times * once, 1e-9);
    EXPECT_LT(passed.exposed_context, gathered.exposed_context);
    EXPECT_EQ(gathered.compute(), divided(1, false, recompute).compute());
  }
  // On a fast link all of it is hidden, but for the compute units that it takes.
  EXPECT_NEAR(divided(1e4, false, Recomputation::none).exposed_context,
              kPerlmutter.collective_share * 3 * once * 20 / 1e4, 1e-9);
  // Communication beside attention leaves less of it to hide the gathers of weights.
  const StepTime fast = divided(1e9, false, Recomputation::none), slow = divided(300, false, Recomputation::none);
  EXPECT_NEAR(fast.exposed_gather_scatter, plain.exposed_gather_scatter, 1e-6);
  EXPECT_GE(slow.exposed_gather_scatter, plain.exposed_gather_scatter);
}

TEST(StepModel, WithoutCommunicationIsComputation) {
  const StepTime one = step({}, {});
  EXPECT_EQ(one.exposed(), 0);
  EXPECT_EQ(one.communication.total(), 0);
  EXPECT_DOUBLE_EQ(one.seconds(), one.forward + one.backward + one.optimizer);
  EXPECT_NEAR(one.backward / one.forward, 3, 0.1);  // blocks run forward again, the head does not
  EXPECT_DOUBLE_EQ(step({}, {.recompute = Recomputation::none}).backward, 2 * one.forward);
}

TEST(StepModel, ACollectiveBesideComputationCostsItsShareOrWhatSticksOut) {
  EXPECT_DOUBLE_EQ(prolongs(10, 4, 0.25), 1);
  EXPECT_DOUBLE_EQ(prolongs(3, 4, 0.25), 1);  // both end together
  EXPECT_DOUBLE_EQ(prolongs(1, 4, 0.25), 3);
  EXPECT_DOUBLE_EQ(prolongs(0, 4, 0.25), 4);
}

TEST(StepModel, EverySwitchSavesTimeAndNoneChangesComputation) {
  const OverlapSwitches all, none = OverlapSwitches::none();
  const GridShape grid = {.x = 2, .y = 2, .z = 4, .data = 2};
  const auto with = [&](OverlapSwitches on) { return step(grid, {.micro_batches = 2, .overlap = on, .cached = 0.5}); };
  const StepTime nothing = with(none);
  // With nothing hidden, a step is computation and all of its communication.
  EXPECT_NEAR(nothing.seconds(), nothing.compute() + nothing.communication.total(), 1e-9);
  for (const auto& [name, on] : Switches<OverlapSwitches>::kAll) {
    OverlapSwitches one = none;
    one.*on = true;
    EXPECT_LT(with(one).seconds(), nothing.seconds());
    EXPECT_EQ(with(one).compute(), nothing.compute());
  }
  EXPECT_LT(with(all).seconds(), nothing.seconds());
}

// Half of the data traffic moves under forward, in which nothing else moves on this grid.
TEST(StepModel, ADividedUpdateGathersUnderTheNextForward) {
  const GridShape grid = {.data = 16};
  for (const double gbps : {0.5, 2.0, 200.0})
    for (const int64_t passes : {1, 4}) {
      StepSettings settings = {.micro_batches = passes};
      const StepTime whole = step(grid, settings, gbps);
      settings.divided_update = true;
      const StepTime divided = step(grid, settings, gbps);
      const double moved = divided.communication.all_reduce_data, forward = divided.forward / passes;
      EXPECT_DOUBLE_EQ(moved, whole.communication.all_reduce_data);
      EXPECT_DOUBLE_EQ(divided.optimizer, whole.optimizer / 16);
      const double last = moved / 2 / divided.data_messages, window = divided.backward / passes;
      EXPECT_NEAR(divided.exposed_data,
                  prolongs(forward, moved / 2, kPerlmutter.collective_share) +
                      prolongs(window, moved / 2 - last, kPerlmutter.collective_share) + last,
                  1e-9 * moved);
      EXPECT_LT(divided.seconds(), whole.seconds());
    }
}

// Every pass scatters, the last one gathers.
TEST(StepModel, DividedGradientsMoveOnceMorePerPass) {
  const GridShape grid = {.data = 16};
  const StepTime once = step(grid, {.divided_update = true}),
                 four = step(grid, {.micro_batches = 4, .divided_gradients = true});
  EXPECT_DOUBLE_EQ(four.communication.all_reduce_data, once.communication.all_reduce_data * 2.5);
}

TEST(StepModel, EveryMicroBatchGathersAndScattersAgainUnlessCached) {
  const GridShape grid = {.z = 8};
  const auto gathers = [&](int64_t passes, double cached, bool checkpoint) {
    const Recomputation recompute = checkpoint ? Recomputation::blocks : Recomputation::none;
    return step(grid, {.micro_batches = passes, .recompute = recompute, .cached = cached}).communication.all_gather_z;
  };
  const double once = gathers(1, 1, true);
  EXPECT_NEAR(gathers(4, 1, true) / once, 1, 1e-12);
  EXPECT_NEAR(gathers(1, 0, false) / once, 2, 1e-12);  // forward and backward
  EXPECT_NEAR(gathers(4, 0, false) / once, 8, 1e-12);
  EXPECT_GT(gathers(1, 0, true) / once, 2.9);  // blocks gather a third time, embedding and head do not
  EXPECT_NEAR(gathers(4, 0.5, false) / once, 1 + 7 * 0.5, 1e-12);
  const auto scatters = [&](int64_t passes) {
    return step(grid, {.micro_batches = passes}).communication.reduce_scatter_z;
  };
  EXPECT_NEAR(scatters(4) / scatters(1), 4, 1e-12);
}

// A latency of 1 ms, so that seconds count messages. GPT-5B has 24 blocks of four weights, together
// 12 x 4096 x 4096 elements, and an embedding and a head.
TEST(StepModel, WeightsMoveOverZOneByOneOrBlockByBlock) {
  AxisLinks links;
  links[static_cast<size_t>(Axis::z)] = {.seconds_per_byte = 1e-12, .latency_seconds = 1e-3, .gbps = 1000};
  const GridShape grid = {.z = 8};
  double others = 0, in_blocks = 0;
  for (const LayerWork& layer : kTable)
    if (layer.owns_weight) (layer.in_block ? in_blocks : others) += static_cast<double>(layer.count) * layer.weights();
  EXPECT_EQ(in_blocks, 24 * 12.0 * 4096 * 4096);
  const auto moved = [&](int64_t blocks, Recomputation recompute, int64_t passes) {
    return predict_step(
               kTable, grid, links, kPerlmutter,
               {.batch_tokens = 1 << 19, .micro_batches = passes, .recompute = recompute, .block_messages = blocks})
        .communication;
  };
  const double bytes = (in_blocks + others) * 1e-12;
  for (const int64_t passes : {1, 3}) {
    const auto times = static_cast<double>(passes);
    const CollectiveSeconds one = moved(0, Recomputation::none, passes), block = moved(24, Recomputation::none, passes);
    const double weights = one.reduce_scatter_z / times / 1e-3 - 4 * bytes / 1e-3;
    EXPECT_NEAR(weights, 24 * 4 + 2, 1e-6);
    EXPECT_NEAR(block.reduce_scatter_z, times * (25e-3 + 4 * bytes), 1e-9);
    EXPECT_NEAR(block.all_gather_z, times * 2 * (25e-3 + 2 * bytes), 1e-9);
    // Blocks that run again are gathered once more, the others are not.
    const CollectiveSeconds again = moved(24, Recomputation::blocks, passes);
    EXPECT_NEAR(again.all_gather_z - block.all_gather_z, times * (24e-3 + 2 * in_blocks * 1e-12), 1e-9);
    EXPECT_EQ(again.reduce_scatter_z, block.reduce_scatter_z);
  }
  const auto over_x = messages_over_z(kTable, {.x = 4, .z = 2}, {.block_messages = 24});
  EXPECT_EQ(over_x.blocks.count, 24);
  EXPECT_EQ(over_x.blocks.elements, 12.0 * 4096 * 4096 / 4);
  EXPECT_EQ(over_x.others.count, 1);
  EXPECT_EQ(over_x.others.elements, others / 4);
}

TEST(StepModel, MorePassesAreNeverFasterThanOneWithEverythingCached) {
  for (const GridShape& grid :
       {GridShape{.x = 2, .y = 2, .z = 4, .data = 2}, GridShape{.z = 8, .data = 4}, GridShape{.x = 8, .data = 4}})
    for (const double gbps : {1., 10., 100.})
      for (const int64_t passes : {1, 2, 4, 8})
        for (const double cached : {0., 0.3, 1.})
          EXPECT_GE(step(grid, {.micro_batches = passes, .cached = cached}, gbps).seconds() * (1 + 1e-12),
                    step(grid, {.cached = 1}, gbps).seconds());
}

TEST(StepModel, PublishedCoefficientsAreTheRingModels) {
  const GridShape grid = {.x = 2, .y = 2, .z = 4, .data = 2};
  AxisLinks links;
  for (const Axis axis : kAxes) links[static_cast<size_t>(axis)] = ring_link(grid[axis], 20);
  for (const Coefficients coefficients : {Coefficients::paper, Coefficients::authors}) {
    const double whole = step(grid, {.micro_batches = 8, .coefficients = coefficients}).communication.total();
    EXPECT_NEAR(whole / published_collectives(kTable, grid, links, 1 << 19, 2, coefficients).total(), 1, 1e-12);
  }
}

}  // namespace
}  // namespace axonn
