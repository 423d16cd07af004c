// Decoders whose ranks along Z divide sequences equal one rank: losses, every gradient of every
// step, norms and weights. They keep a part of the activations, and generate the same.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/loss.hpp"
#include "axonn/tasks/text/evaluation.hpp"
#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "model/beside_one_rank.hpp"
#include "model/small_decoders.hpp"
#include "support/held_bytes.hpp"
#include "support/rank_test.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

struct Place {
  GridShape grid;
  int64_t context;
};

std::vector<Place> places() {
  std::vector<Place> all = {{{1, 1, 2, 1}, 2}, {{1, 1, 3, 1}, 3}, {{1, 1, 4, 1}, 4},
                            {{1, 1, 4, 1}, 2}, {{2, 1, 2, 1}, 2}, {{1, 1, 2, 2}, 2},
                            {{1, 2, 4, 1}, 4}, {{1, 2, 4, 1}, 2}, {{2, 2, 2, 1}, 2}};
  std::erase_if(all, [](const Place& place) { return place.grid.ranks() != test_environment().ranks(); });
  return all;
}

VerificationOptions options() { return {.batch = 8, .micro_batches = 2, .steps = 2}; }

// On every place by each of the schedules. The network runs once on one rank.
void expect_equal(const std::string& network, const MakeNetwork& make, const VerificationOptions& with,
                  const std::vector<ForwardSchedule>& schedules) {
  Verifier verifier(test_environment(), with, make);
  for (size_t i = 0; i < schedules.size(); ++i)
    for (const auto& [grid, context] : places()) {
      ForwardSchedule here = schedules[i];
      here.context = context;
      test::expect_within_tolerances(verifier.on(grid, here), network + " on " + grid.to_string() + ", context " +
                                                                  std::to_string(context) + ", schedule " +
                                                                  std::to_string(i));
    }
}

// 24 tokens divide by 4, 6 and 8.
constexpr int64_t kSequence = 24;

DecoderShape gpt2() { return test::small_gpt2({.heads = 8, .sequence = kSequence}); }

DecoderShape llama() { return test::small_llama({.heads = 8, .head_dim = 6, .mlp_hidden = 64, .sequence = kSequence}); }

// A window shorter than every part, in one of two blocks.
DecoderShape mistral() {
  DecoderShape shape = llama();
  shape.window = 2;
  shape.windowed_layers = 1;
  return shape;
}

// A window of several parts; norms of heads and a tied head.
DecoderShape qwen3() {
  DecoderShape shape = llama();
  shape.qk_norm = shape.qkv_bias = shape.tied_head = true;
  shape.window = 11;
  return shape;
}

std::vector<test::NamedDecoder> decoders() {
  return {{"gpt2", {.shape = gpt2()}},
          {"gpt2 with dropout", {.shape = gpt2(), .dropout = 0.2}},
          {"llama", {.shape = llama()}},
          {"mistral with dropout", {.shape = mistral(), .dropout = 0.1}},
          {"qwen3", {.shape = qwen3()}}};
}

TEST(DividedSequences, OfADecoderEqualOneRank) {
  for (const auto& [name, config] : decoders())
    expect_equal(name, decoder_on_synthetic_tokens(config, options().seed), options(), {{}});
}

// With rows of queries over Y, of norms over X, recomputation, and sums beside their products.
TEST(DividedSequences, OfADecoderEqualOneRankWithAllThatIsDivided) {
  for (const auto& [name, config] : decoders()) {
    DecoderConfig again = config;
    again.checkpoint_every = 1;
    expect_equal(name, decoder_on_synthetic_tokens(again, options().seed), options(),
                 {{.linear = LinearSchedule::overlap, .attention_rows = AttentionRows::on, .norm_rows = NormRows::on}});
  }
}

TEST(DividedSequences, OfADecoderEqualOneRankInParts) {
  VerificationOptions with = options();
  with.batch = 16;
  expect_equal("llama in parts", decoder_on_synthetic_tokens({.shape = llama(), .dropout = 0.1}, with.seed), with,
               {{.split = 2}});
}

// Documents of 2 to 9 tokens, which begin anew in each row.
class Packed : public SyntheticTokens {
 public:
  Packed(Decoder& model, uint64_t seed) : SyntheticTokens(model, seed), model_(model) {}
  at::Tensor loss_sum(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor tokens = at::arange(kSequence, at::kLong);
    const at::Tensor begins =
        (tokens - tokens.remainder(9)).maximum(tokens - tokens.remainder(7)).expand({inputs[0].size(0), kSequence});
    return model_.loss_sum(inputs[0].narrow(1, 0, kSequence).contiguous(),
                           inputs[0].narrow(1, 1, kSequence).contiguous(), begins.contiguous());
  }

 private:
  Decoder& model_;
};

TEST(DividedSequences, OfDocumentsEqualOneRank) {
  for (const auto& [name, config] : decoders()) {
    const MakeNetwork make = [config](Context& context) {
      auto model = std::make_shared<Decoder>(context, config);
      auto task = std::make_unique<Packed>(*model, options().seed);
      return VerifiedNetwork{.model = std::move(model), .task = std::move(task)};
    };
    expect_equal(std::string(name) + " with documents", make, options(),
                 {{}, {.attention_rows = AttentionRows::on, .norm_rows = NormRows::on}});
  }
}

Context context_of(const Place& place) {
  return Context(test_environment(), place.grid, {.dtype = at::kDouble, .forward = {.context = place.context}});
}

Context alone() {
  return Context(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
}

// Texts of any length: shorter ones are padded to parts.
TEST(DividedSequences, ScoreTextsAsOneRank) {
  const DecoderConfig config = {.shape = llama()};
  std::vector<std::vector<int32_t>> texts;
  for (const size_t length : {2, 5, 25, 13, 9}) {
    auto& text = texts.emplace_back(length);
    for (size_t i = 0; i < length; ++i) text[i] = static_cast<int32_t>((7 * i + 3 * length) % 101);
  }
  std::vector<ScoredText> scored;
  for (const auto& text : texts) scored.push_back({.tokens = text, .scored = std::ssize(text) / 2});
  const auto scores_on = [&](Context context) {
    Decoder model(context, config);
    const Parameters parameters = context.materialize(model, 1);
    return log_probabilities(context, model, scored, {.rows = 2});
  };
  const std::vector<double> expected = scores_on(alone());
  for (const Place& place : places()) {
    const std::vector<double> got = scores_on(context_of(place));
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(got[i] / expected[i], 1, 1e-12) << "text " << i << " on " << place.grid.to_string();
  }
}

// With a cache, each rank has all tokens.
TEST(DividedSequences, GenerateWithACacheAsOneRank) {
  const DecoderConfig config = {.shape = gpt2()};
  const auto logits_on = [&](Context context) {
    Decoder model(context, config);
    const Parameters parameters = context.materialize(model, 1);
    model.eval();
    DecodingState state = model.begin_decoding(1, 5);
    model.decode(at::arange(4, at::kLong).unsqueeze(0), {3}, state);
    return model.decode(at::full({1, 1}, 9, at::kLong), {1}, state).tensor;
  };
  const at::Tensor expected = logits_on(alone());
  for (const Place& place : places()) {
    if (place.grid.x > 1) continue;  // each rank has the logits of a part of the vocabulary
    const at::Tensor got = logits_on(context_of(place));
    EXPECT_LE((got - expected).abs().max().item<double>(), 1e-12 * expected.abs().max().item<double>())
        << place.grid.to_string();
  }
}

// Bytes that a forward pass of two rows keeps for backward: the least of several steps behind the
// first one.
int64_t kept_bytes(const Place& place, const DecoderConfig& config) {
  Context context = context_of(place);
  Decoder model(context, config);
  const Parameters parameters = context.materialize(model, 1);
  const int64_t sequence = config.shape.sequence;
  const at::Tensor ids = at::arange(2 * sequence, at::kLong).remainder(config.shape.vocabulary).view({2, sequence});
  int64_t kept = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 10; ++i) {
    context.set_samples({.seed = 1, .first = 0});
    auto step = context.begin_step();
    const auto held = std::make_shared<test::HeldBytes>();
    at::Tensor loss;
    {
      const c10::DebugInfoGuard counting(c10::DebugInfoKind::PROFILER_STATE, held);
      loss = mean(model.loss_sum(ids, ids), static_cast<double>(2 * sequence), context);
      if (i > 0) kept = std::min(kept, held->bytes());
    }
    loss.backward();
    step.finish();
  }
  return kept;
}

// No rank keeps probabilities, be they of a block or dropped, so it keeps less than its share of
// what one rank keeps of all tokens.
TEST(DividedSequences, KeepLessThanTheirShareOfTheActivations) {
  for (DecoderConfig config : {DecoderConfig{.shape = llama()}, DecoderConfig{.shape = gpt2(), .dropout = 0.1}}) {
    config.shape.sequence = 96;
    std::map<std::string, double> of_grids;
    for (const Place& place : places()) {
      double& whole = of_grids[place.grid.to_string()];
      if (whole == 0) whole = static_cast<double>(kept_bytes({place.grid, 1}, config));
      const auto part = static_cast<double>(kept_bytes(place, config));
      EXPECT_LE(part * static_cast<double>(place.context), 1.05 * whole)
          << place.grid.to_string() << ", context " << place.context;
    }
  }
}

TEST(DividedSequences, OfALengthThatDoesNotDivideAreRefused) {
  for (const Place& place : places()) {
    Context context = context_of(place);
    DecoderConfig config = {.shape = gpt2()};
    Decoder fits(context, config);
    EXPECT_USER_ERROR(fits.forward(at::zeros({1, 2 * place.context - 1}, at::kLong)), "must divide by 2 * context");
    config.shape.sequence = 2 * place.context * 3 + 1;
    EXPECT_USER_ERROR(Decoder(context, config), "must divide by 2 * context", "next ones that do: ");
  }
}

}  // namespace
}  // namespace axonn
