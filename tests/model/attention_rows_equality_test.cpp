// Networks whose ranks divide attention's rows of queries equal one rank: losses, every gradient of
// every step, norms and weights.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/tasks/images/image_task.hpp"
#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

std::vector<GridShape> grids() {
  switch (test_environment().ranks()) {
    case 2:
      return {{1, 2, 1, 1}};
    case 3:
      return {{1, 3, 1, 1}};
    case 4:
      return {{2, 2, 1, 1}, {1, 2, 2, 1}};
    case 8:
      return {{2, 4, 1, 1}};
    default:
      return {};
  }
}

VerificationOptions options() {
  return {.batch = 8, .micro_batches = 2, .steps = 2, .forward = {.attention_rows = AttentionRows::on}};
}

void expect_equal(const std::string& network, const MakeNetwork& make, const VerificationOptions& with) {
  Verifier verifier(test_environment(), with, make);
  for (const GridShape& grid : grids())
    for (const Difference& difference : verifier.on(grid).differences)
      EXPECT_LE(difference.relative, difference.tolerance)
          << network << ": " << difference.what << " on " << grid.to_string();
}

// 13 tokens do not divide into parts.
DecoderShape gpt2() { return {.layers = 2, .hidden = 48, .heads = 8, .sequence = 13, .vocabulary = 101}; }

DecoderShape llama() {
  return rotated({.layers = 2,
                  .hidden = 48,
                  .heads = 8,
                  .kv_heads = 4,
                  .head_dim = 6,
                  .mlp_hidden = 64,
                  .sequence = 13,
                  .vocabulary = 101,
                  .gated = true});
}

// A window shorter than a part, in one of two blocks.
DecoderShape mistral() {
  DecoderShape shape = llama();
  shape.window = 2;
  shape.windowed_layers = 1;
  return shape;
}

struct Network {
  const char* name;
  DecoderConfig config;
};

std::vector<Network> decoders() {
  return {{"gpt2", {.shape = gpt2()}},
          {"gpt2 with dropout", {.shape = gpt2(), .dropout = 0.2}},
          {"llama", {.shape = llama()}},
          {"mistral", {.shape = mistral()}}};
}

TEST(DividedRows, OfADecoderEqualOneRank) {
  for (const auto& [name, config] : decoders())
    expect_equal(name, decoder_on_synthetic_tokens(config, options().seed), options());
}

// With recomputation, other rows at a time, and sums at their owners.
TEST(DividedRows, OfADecoderEqualOneRankWithAllThatOverlaps) {
  for (const auto& [name, config] : decoders()) {
    DecoderConfig again = config;
    again.checkpoint_every = 1;
    VerificationOptions with = options();
    with.forward.split = 2;
    with.forward.linear = LinearSchedule::overlap;
    expect_equal(name, decoder_on_synthetic_tokens(again, with.seed), with);
  }
}

// Attention at both levels: its heads lie over X, and over Y.
MakeNetwork unet() {
  const int ranks = test_environment().ranks();
  const UnetConfig config = {.shape = {.image = 4,
                                       .base = 2 * ranks,
                                       .multipliers = {1, 2},
                                       .blocks = 1,
                                       .attention = {4, 2},
                                       .heads = ranks,
                                       .groups = 2,
                                       .classes = 4},
                             .dropout = 0.1};
  const std::shared_ptr<ImageSource> shapes = make_shapes(config.shape.image, 100, 1);
  const auto process = std::make_shared<Diffusion>(DiffusionOptions{.times = 100}, c10::kCPU);
  return [shapes, process, config](Context& context) {
    auto network = std::make_shared<Unet>(context, config);
    auto task = std::make_unique<ImageTask>(context, *network, *process, *shapes, nullptr, ImageTaskOptions{.seed = 1});
    return VerifiedNetwork{.model = std::move(network), .task = std::move(task)};
  };
}

TEST(DividedRows, OfAUnetEqualOneRank) { expect_equal("unet", unet(), options()); }

}  // namespace
}  // namespace axonn
