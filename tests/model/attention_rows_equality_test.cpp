// Networks whose ranks divide attention's rows of queries equal one rank: losses, every gradient of
// every step, norms and weights.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "model/beside_one_rank.hpp"
#include "model/small_decoders.hpp"
#include "model/small_unet.hpp"
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
  test::expect_equals_one_rank(make, with, grids(), network);
}

// 13 tokens, or 37, do not divide into parts.
DecoderShape gpt2() { return test::small_gpt2({.heads = 8, .sequence = 13}); }

DecoderShape llama() { return test::small_llama({.heads = 8, .head_dim = 6, .mlp_hidden = 64, .sequence = 13}); }

// A window shorter than every part, in one of two blocks.
DecoderShape mistral() {
  DecoderShape shape = llama();
  shape.sequence = 37;
  shape.window = 2;
  shape.windowed_layers = 1;
  return shape;
}

std::vector<test::NamedDecoder> decoders() {
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
  UnetConfig config = test::small_unet(test_environment().ranks());
  config.shape.attention = {4, 2};
  return test::unet_on_shapes(config);
}

TEST(DividedRows, OfAUnetEqualOneRank) { expect_equal("unet", unet(), options()); }

}  // namespace
}  // namespace axonn
