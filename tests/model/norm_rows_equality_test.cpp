// Decoders whose ranks divide the rows of norms, dropout and residual sums equal one rank: losses,
// every gradient of every step, norms and weights. They keep a part of the stream.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/loss.hpp"
#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "model/beside_one_rank.hpp"
#include "model/small_decoders.hpp"
#include "support/held_bytes.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

std::vector<GridShape> grids() {
  switch (test_environment().ranks()) {
    case 2:
      return {{2, 1, 1, 1}};
    case 3:
      return {{3, 1, 1, 1}};
    case 4:
      return {{4, 1, 1, 1}, {2, 2, 1, 1}, {2, 1, 2, 1}};
    case 8:
      return {{2, 2, 1, 2}, {4, 2, 1, 1}};
    default:
      return {};
  }
}

VerificationOptions options() {
  return {.batch = 12, .micro_batches = 2, .steps = 2, .forward = {.norm_rows = NormRows::on}};
}

void expect_equal(const std::string& network, const DecoderConfig& config, const VerificationOptions& with) {
  test::expect_equals_one_rank(decoder_on_synthetic_tokens(config, with.seed), with, grids(), network);
}

// A micro-batch of 6 sequences of 13 tokens does not divide by x = 4, and one of 3 not by 2.
DecoderShape gpt2() { return test::small_gpt2({.heads = 24, .sequence = 13}); }

DecoderShape llama() { return test::small_llama({.heads = 24, .head_dim = 4, .mlp_hidden = 64, .sequence = 13}); }

DecoderShape qwen3() {
  DecoderShape shape = llama();
  shape.qk_norm = shape.qkv_bias = shape.tied_head = true;
  shape.window = 3;
  return shape;
}

std::vector<test::NamedDecoder> decoders() {
  return {{"gpt2", {.shape = gpt2()}},
          {"gpt2 with dropout", {.shape = gpt2(), .dropout = 0.2}},
          {"llama with dropout", {.shape = llama(), .dropout = 0.1}},
          {"llama with adapters", {.shape = llama(), .low_rank = {.rank = 2}}},
          {"qwen3", {.shape = qwen3()}}};
}

TEST(DividedRowsOfNorms, OfADecoderEqualOneRank) {
  for (const auto& [name, config] : decoders()) expect_equal(name, config, options());
}

// With recomputation, sums beside their products, divided rows of attention, and one micro-batch.
TEST(DividedRowsOfNorms, OfADecoderEqualOneRankWithAllThatOverlaps) {
  for (const auto& [name, config] : decoders()) {
    DecoderConfig again = config;
    again.checkpoint_every = 1;
    again.shape.sequence = 12;  // rows that divide by x
    VerificationOptions with = options();
    with.micro_batches = 1;
    with.forward.linear = LinearSchedule::overlap;
    with.forward.attention_rows = AttentionRows::on;
    expect_equal(name, again, with);
  }
}

// Bytes that a forward pass keeps for backward: the least of several steps behind the first one. A
// buffer that moves is counted, too, if the thread that sends it frees it.
int64_t kept_bytes(NormRows rows, const DecoderConfig& config) {
  constexpr int64_t kBatch = 4;
  Context context(test_environment(), grids().front(), {.dtype = at::kDouble, .forward = {.norm_rows = rows}});
  Decoder model(context, config);
  const Parameters parameters = context.materialize(model, 1);
  const int64_t sequence = config.shape.sequence;
  const at::Tensor ids = at::arange(kBatch * sequence, at::kLong).remainder(config.shape.vocabulary);
  int64_t kept = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 10; ++i) {
    auto step = context.begin_step();
    const auto held = std::make_shared<test::HeldBytes>();
    at::Tensor loss;
    {
      const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, held);
      loss = mean(model.loss_sum(ids.view({kBatch, sequence}), ids.view({kBatch, sequence})),
                  static_cast<double>(kBatch * sequence), context);
      if (i > 0) kept = std::min(kept, held->bytes());
    }
    loss.backward();
    step.finish();
  }
  return kept;
}

// Inputs and outputs of both norms of a block and of the last one are 1 / x. A row keeps one or two
// statistics besides.
TEST(DividedRowsOfNorms, KeepAPartOfTheStream) {
  for (const auto& [name, config] :
       {test::NamedDecoder{"gpt2", {.shape = gpt2()}}, test::NamedDecoder{"llama", {.shape = llama()}}}) {
    DecoderConfig longer = config;
    longer.shape.sequence = 36;
    const GridShape grid = grids().front();
    const auto saved = static_cast<double>(kept_bytes(NormRows::off, longer) - kept_bytes(NormRows::on, longer));
    const double expected = 8.0 * 4 * 36 * 48 / grid.y * (4 * 2 + 2) * (1 - 1.0 / grid.x);
    EXPECT_NEAR(saved / expected, 1, 0.1) << name;
  }
}

}  // namespace
}  // namespace axonn
