#include "axonn/network/decoder/decoder_network.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "axonn/core/error.hpp"
#include "axonn/network/decoder/decoder_presets.hpp"

namespace axonn {
namespace {

const DecoderShape kLlama = rotated({.layers = 4,
                                     .hidden = 64,
                                     .heads = 8,
                                     .kv_heads = 2,
                                     .mlp_hidden = 96,
                                     .sequence = 32,
                                     .vocabulary = 128,
                                     .gated = true});

DecoderShape with(const std::function<void(DecoderShape&)>& change) {
  DecoderShape shape = kLlama;
  change(shape);
  return shape;
}

DecoderShape mixture() {
  return with([](DecoderShape& shape) {
    shape.experts = 6;
    shape.token_experts = 2;
    shape.expert_hidden = 48;
    shape.shared_hidden = 32;
    shape.dense_layers = 1;
  });
}

const LayerWork& layer(const LayerTable& table, std::string_view name) {
  return *std::ranges::find(table, name, &LayerWork::name);
}

double flops(const DecoderShape& shape) {
  double sum = 0;
  for (const LayerWork& one : layer_table(shape)) sum += static_cast<double>(one.count) * one.flops;
  return sum;
}

TEST(Decoder, IsAGpt2ByDefault) {
  for (const DecoderPreset& preset : decoder_presets())
    EXPECT_EQ(is_gpt2(preset.shape), preset.name.starts_with("gpt")) << preset.name;
  EXPECT_TRUE(is_gpt2({.layers = 1, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 9, .positions = 4}));
  EXPECT_FALSE(is_gpt2({.layers = 1, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 9, .positions = 6}));
  EXPECT_EQ(network_model("gpt", find_decoder_preset("gpt-tiny").shape).program, "gpt");
  EXPECT_EQ(network_model("llama", kLlama).program, "gpt");
}

// As their authors and transformers count them.
TEST(Decoder, PresetsHaveTheirPublishedParameters) {
  const auto count = [](std::string_view name) { return parameters_of(find_decoder_preset(name).shape); };
  EXPECT_EQ(count("smollm2-135m"), 134515008);
  EXPECT_EQ(count("tinyllama-1.1b"), 1100048384);
  EXPECT_EQ(count("llama-2-7b"), 6738415616);
  EXPECT_EQ(count("llama-2-70b"), 68976648192);
  EXPECT_EQ(count("llama-3.1-8b"), 8030261248);
  EXPECT_EQ(count("llama-3.1-70b"), 70553706496);
  EXPECT_EQ(count("llama-3.2-1b"), 1235814400);
  EXPECT_EQ(count("mistral-7b"), 7241732096);
  EXPECT_EQ(count("qwen2.5-0.5b"), 494032768);
  EXPECT_EQ(count("qwen2.5-7b"), 7615616512);
  EXPECT_EQ(count("qwen3-0.6b"), 596049920);
  EXPECT_EQ(count("qwen3-8b"), 8190735360);
}

TEST(Decoder, IsAGpt2UnlessAKeySaysOtherwise) {
  const std::vector<std::string> common = {"layers", "hidden", "heads", "sequence", "vocab", "mlp_hidden", "tied"};
  EXPECT_EQ(Sizes<DecoderShape>::base(common), DecoderShape());
  EXPECT_EQ(size_keys<DecoderShape>(SizesFor::plain), common);
  for (const std::string& key : size_keys<DecoderShape>(SizesFor::planner_files)) {
    if (std::ranges::find(common, key) != common.end()) continue;
    EXPECT_EQ(Sizes<DecoderShape>::base(std::vector{std::string("layers"), key}), rotated({})) << key;
  }
  EXPECT_EQ(Sizes<DecoderShape>::base(std::vector<std::string>{"gated"}, {.layers = 3}), rotated({.layers = 3}));
}

// 8 queries of 8 features, 2 keys and 2 values; three matrices of 64 x 96; two norms.
TEST(Decoder, OfGatedMlpAndFewKeysIsCountedByHand) {
  const int64_t block = 64 * 96 + 64 * 64 + 3 * 64 * 96 + 2 * 64;
  EXPECT_EQ(parameters_of(kLlama), 2 * 128 * 64 + 4 * block + 64);
  EXPECT_EQ(parameters_of(with([](DecoderShape& s) { s.tied_head = true; })), 128 * 64 + 4 * block + 64);
  EXPECT_EQ(parameters_of(with([](DecoderShape& s) { s.qk_norm = true; })), parameters_of(kLlama) + 4 * 2 * 8);
  EXPECT_EQ(parameters_of(with([](DecoderShape& s) { s.qkv_bias = s.projection_bias = s.mlp_bias = true; })),
            parameters_of(kLlama) + 4 * (96 + 64 + 2 * 96 + 64));
  EXPECT_EQ(parameters_of(with([](DecoderShape& s) { s.head_dim = 16; })),
            parameters_of(kLlama) + 4 * (64 * 96 + 64 * 64));
  EXPECT_DOUBLE_EQ(flops(kLlama), 2.0 * (4 * (64 * 96 + 64 * 64 + 3 * 64 * 96 + 2 * 32 * 64) + 64 * 128));
}

TEST(Decoder, OfExpertsIsCountedByHand) {
  const int64_t attention = 64 * 96 + 64 * 64 + 2 * 64, expert = 3 * 64 * 48, shared = 3 * 64 * 32;
  const int64_t rest = 2 * 128 * 64 + 64 + 4 * attention + 3 * 64 * 96 + 3 * (6 * 64 + shared + 64);
  EXPECT_EQ(parameters_of(mixture()), rest + 3 * 6 * expert);
  EXPECT_EQ(active_parameters_of(mixture()), rest + 3 * 2 * expert);
  EXPECT_DOUBLE_EQ(flops(mixture()), 2.0 * (4 * (64 * 96 + 64 * 64 + 2 * 32 * 64) + 3 * 64 * 96 +
                                            3 * (64 * 6 + 2 * expert + shared) + 64 * 128));
  const LayerTable table = layer_table(mixture());
  EXPECT_EQ(layer(table, "experts up").weights(), 6 * 64 * 96);
  EXPECT_EQ(layer(table, "experts up").count, 3);
  EXPECT_EQ(layer(table, "up").count, 1);
  EXPECT_EQ(layer(table, "qkv").count, 4);
}

TEST(Decoder, MemoryOfOneRankHoldsEveryParameterOnce) {
  for (const DecoderShape& shape : {kLlama, mixture(), with([](DecoderShape& s) { s.tied_head = s.norm_bias = true; }),
                                    with([](DecoderShape& s) { s.qkv_bias = s.mlp_bias = s.projection_bias = true; })})
    EXPECT_EQ(predict_memory(shape, {}, {.element_bytes = 4}).weight_bytes, 4 * parameters_of(shape));
}

TEST(Decoder, MemoryOfExpertsIsDividedAsThatOfOtherWeights) {
  const auto weights = [](const GridShape& grid) {
    return static_cast<double>(predict_memory(mixture(), grid, {}).weight_bytes);
  };
  for (const GridShape& grid : {GridShape{.x = 2}, GridShape{.y = 2}, GridShape{.z = 2}, GridShape{.x = 2, .z = 2}})
    EXPECT_NEAR(weights({}) / weights(grid) / grid.ranks(), 1, 0.02) << grid.to_string();
  EXPECT_EQ(weights({.data = 4}), weights({}));
}

// Per token and block: 4 h of norms, q, k, v and attention's output, three parts of the MLP,
// sums of the heads, two deviations.
TEST(Decoder, ActivationsAreTheSumOfWhatIsKept) {
  const auto kept = [](const DecoderShape& shape) {
    return predict_memory(shape, {.x = 2, .y = 2}, {.element_bytes = 2}).activation_bytes;
  };
  const int64_t block = 4 * 32 + (2 * 32 + 2 * 8) + 3 * 48 + 4 + 2, last = 2 * 32 + 1;
  EXPECT_EQ(kept(kLlama), 2 * 32 * (4 * block + last));
  const int64_t experts = 2 * 2 * 32 + 6 + 2 * 3 * 24 + 3 * 16;
  EXPECT_EQ(kept(mixture()), 2 * 32 * (4 * block + last + 3 * (experts - 3 * 48)));
}

TEST(Decoder, AWindowHidesScores) {
  const auto scores = [](int64_t window, int64_t layers) {
    double sum = 0;
    for (const LayerWork& one :
         layer_table(with([&](DecoderShape& s) { s.window = window, s.windowed_layers = layers; })))
      if (one.name.starts_with("attention")) sum += static_cast<double>(one.count) * one.flops;
    return sum;
  };
  const double whole = scores(0, 0);
  EXPECT_DOUBLE_EQ(scores(32, 4), whole);  // a window as long as the sequence hides nothing
  EXPECT_DOUBLE_EQ(scores(64, 4), whole);
  EXPECT_DOUBLE_EQ(scores(8, 4), whole * (8 * (2 - 0.25)) / 32);
  EXPECT_DOUBLE_EQ(scores(8, 1), whole * (3 + (8 * (2 - 0.25)) / 32) / 4);
}

TEST(Decoder, SaysWhichGridsCannotHoldItAndWhyNoProgramTrainsIt) {
  const auto model = network_model("llama", kLlama);
  EXPECT_EQ(model.why_impossible({.x = 3}), "heads % x");
  EXPECT_EQ(model.why_impossible({.x = 4}), "kv_heads % x");
  EXPECT_EQ(model.why_impossible({.y = 5}), "hidden % y");
  EXPECT_EQ(model.why_impossible({.x = 2, .y = 4, .z = 3}), std::nullopt);
  EXPECT_EQ(model.program, "gpt");
  EXPECT_EQ(network_model("mixture", mixture()).program, "");
  EXPECT_EQ(network_model("mixture", mixture()).beyond_programs, "6 experts");
  EXPECT_EQ(model.usual_batch, 4 << 20);
  EXPECT_EQ(network_model("long", with([](DecoderShape& s) { s.sequence = 40960; })).usual_batch, 102 * 40960);
  EXPECT_EQ(network_model("longest", with([](DecoderShape& s) { s.sequence = 1 << 23; })).usual_batch, 1 << 23);
}

TEST(Decoder, RefusesSizesThatDoNotFit) {
  const auto refused = [](const std::function<void(DecoderShape&)>& change) {
    EXPECT_THROW(check_decoder(with(change)), UserError);
  };
  refused([](DecoderShape& s) { s.layers = 0; });
  refused([](DecoderShape& s) { s.kv_heads = 3; });
  refused([](DecoderShape& s) { s.heads = 6, s.kv_heads = 6; });
  refused([](DecoderShape& s) { s.positions = 31; });
  refused([](DecoderShape& s) { s.windowed_layers = 2; });
  refused([](DecoderShape& s) { s.window = 8, s.windowed_layers = 5; });
  refused([](DecoderShape& s) { s.token_experts = 2; });
  refused([](DecoderShape& s) { s.experts = 4, s.token_experts = 5, s.expert_hidden = 8; });
  refused([](DecoderShape& s) { s.experts = 4, s.token_experts = 2; });
  refused([](DecoderShape& s) { s.experts = 4, s.token_experts = 2, s.expert_hidden = 8, s.dense_layers = 5; });
  refused(
      [](DecoderShape& s) { s.experts = 1 << 16, s.token_experts = 1, s.expert_hidden = 1 << 22, s.layers = 1000; });
  refused([](DecoderShape& s) { s.block_norms = 5; });
  refused([](DecoderShape& s) { s.head_dim = 7; });
  refused([](DecoderShape& s) { s.rope_theta = 0; });
  refused([](DecoderShape& s) { s.norm_epsilon = std::numeric_limits<double>::quiet_NaN(); });
  refused([](DecoderShape& s) { s.rope_factor = 0.5; });
  refused([](DecoderShape& s) { s.rope_factor = 4; });
  refused([](DecoderShape& s) { s.rope_factor = 4, s.rope_original = 8, s.rope_low = 4; });
}

TEST(Decoder, HasItsWindowsInTheLastBlocks) {
  EXPECT_EQ(kLlama.windowed(), 0);
  const DecoderShape all = with([](DecoderShape& s) { s.window = 8; });
  EXPECT_EQ(all.windowed(), 4);
  EXPECT_EQ(all.window_of(0), 8);
  const DecoderShape late = with([](DecoderShape& s) { s.window = 8, s.windowed_layers = 1; });
  EXPECT_EQ(late.window_of(2), 0);
  EXPECT_EQ(late.window_of(3), 8);
}

}  // namespace
}  // namespace axonn
