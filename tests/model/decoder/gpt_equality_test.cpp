// Any grid gives the numbers of one rank: losses, gradients of every step, norms and weights.
#include <algorithm>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "model/beside_one_rank.hpp"
#include "model/small_decoders.hpp"
#include "support/every_grid.hpp"

namespace axonn {
namespace {

// Every axis is > 1 in some shape, by itself and with others. All 35 shapes of 16 ranks would take
// minutes.
const std::vector<GridShape> kSomeOf16 = {{16, 1, 1, 1}, {1, 16, 1, 1}, {1, 1, 16, 1}, {1, 1, 1, 16},
                                          {2, 2, 2, 2},  {4, 2, 2, 1},  {1, 2, 4, 2}};

std::vector<GridShape> grids() { return test_environment().ranks() == 16 ? kSomeOf16 : test::every_grid(); }

// 48 features and 48 heads divide by every axis used here; 101 tokens divide by none of them.
DecoderConfig model_of(double dropout, bool tied) {
  return {.shape = test::small_gpt2({.heads = 48, .mlp_hidden = tied ? 100 : 0, .sequence = 4, .tied_head = tied}),
          .dropout = dropout};
}

// On up to 3 ranks, and in the nightly run on any number of them. Otherwise settings take turns.
bool tests_all_combinations() { return test_environment().ranks() <= 3 || tests_everything(); }

// Rows divide by every axis and number of micro-batches: 144 do on 16 ranks and on 3. Each rank
// computes the reference from all of them.
VerificationOptions options_of(int64_t micro_batches) {
  const int64_t batch = tests_everything() ? 144 : test_environment().ranks() % 3 == 0 ? 36 : 48;
  return {.batch = batch, .micro_batches = micro_batches};
}

void expect_equal_on(const std::vector<GridShape>& shapes, const DecoderConfig& model,
                     const VerificationOptions& options) {
  const std::string what = "dropout " + std::to_string(model.dropout) +
                           (model.shape.tied_head ? ", tied, " : ", untied, ") + std::to_string(options.micro_batches) +
                           " micro-batches";
  test::expect_equals_one_rank(decoder_on_synthetic_tokens(model, options.seed), options, shapes, what);
}

// Every grid, or those at `turn`, `turn` + `turns` and so on: `turns` settings take each grid once.
std::vector<GridShape> grids_of_turn(size_t turn, size_t turns) {
  if (tests_all_combinations()) return grids();
  const std::vector<GridShape> all = grids();
  std::vector<GridShape> some;
  for (size_t i = turn % turns; i < all.size(); i += turns) some.push_back(all[i]);
  return some;
}

// With all combinations or four that pair every two settings.
bool takes_part(double dropout, bool tied, int64_t micro_batches) {
  const bool even = ((dropout > 0) + tied + (micro_batches > 1)) % 2 == 0;
  return even || tests_all_combinations();
}

// Each grid takes one of the four combinations.
TEST(GptOnEveryGrid, EqualsOneRankInFp64UnderAdamW) {
  size_t turn = 0;
  for (const double dropout : {0.0, 0.2})
    for (const bool tied : {false, true})
      for (const int64_t micro_batches : {1, 3})
        if (takes_part(dropout, tied, micro_batches))
          expect_equal_on(grids_of_turn(turn++, 4), model_of(dropout, tied), options_of(micro_batches));
}

// Each grid takes this or fp32.
TEST(GptOnEveryGrid, EqualsOneRankInFp64UnderSgd) {
  VerificationOptions options = options_of(3);
  options.optimizer.kind = OptimizerKind::sgd;
  options.optimizer.learning_rate = 0.1;
  expect_equal_on(grids_of_turn(0, 2), model_of(0.1, true), options);
}

// With activation checkpointing, which computes parts of a product again.
TEST(GptOnEveryGrid, EqualsOneRankUnderEveryLinearSchedule) {
  size_t turn = 0;
  for (const auto schedule : {LinearSchedule::mm_rs_c_ag, LinearSchedule::overlap, LinearSchedule::automatic}) {
    VerificationOptions options = options_of(3);
    options.forward.linear = schedule;
    DecoderConfig model = model_of(0.1, true);
    model.checkpoint_every = 2;
    expect_equal_on(grids_of_turn(turn++, 3), model, options);
  }
}

// With an average of the weights and activation checkpointing. Without clipping, `fuse` updates
// weights during backward.
TEST(GptOnEveryGrid, EqualsOneRankUnderEverySchedule) {
  size_t turn = 0;
  for (const auto& [schedule, max_norm] :
       {std::pair(UpdateSchedule::rs_opt_ag, 1.0), {UpdateSchedule::fuse, 1.0}, {UpdateSchedule::fuse, 0.0}}) {
    VerificationOptions options = options_of(3);
    options.optimizer.schedule = schedule;
    options.optimizer.ema = 0.5;
    options.max_norm = max_norm;
    DecoderConfig model = model_of(0.1, true);
    model.checkpoint_every = 1;
    expect_equal_on(grids_of_turn(turn++, 3), model, options);
  }
}

// One rank has padding too. Grids of up to 4 ranks have all of its shapes. Grids of 8 whose axes
// have at most two ranks have them too.
TEST(GptOnEveryGrid, EqualsOneRankWithAVocabularyInTiles) {
  std::vector<GridShape> shapes = grids();
  if (test_environment().ranks() > 4)
    std::erase_if(shapes, [](const GridShape& grid) { return std::max({grid.x, grid.y, grid.z, grid.data}) > 2; });
  for (const bool tied : {false, true}) {
    DecoderConfig model = model_of(0, tied);
    model.shape.vocabulary = 4099;
    std::vector<GridShape> mine;  // on 8 ranks, each takes one of both
    for (size_t i = 0; i < shapes.size(); ++i)
      if (tests_all_combinations() || i % 2 == tied) mine.push_back(shapes[i]);
    expect_equal_on(mine, model, options_of(1));
  }
}

TEST(GptOnFourAxes, EqualsOneRank) {
  if (test_environment().ranks() != 16) GTEST_SKIP() << "on 16 ranks";
  DecoderConfig model = model_of(0.1, true);
  model.checkpoint_every = 1;
  expect_equal_on({{2, 2, 2, 2}}, model, options_of(3));
}

TEST(GptOnEveryGrid, EqualsOneRankInFp32) {
  VerificationOptions options = options_of(1);
  options.dtype = at::kFloat;
  expect_equal_on(grids_of_turn(1, 2), model_of(0, false), options);
}

TEST(Verification, FailsWhenNothingIsANumber) {
  VerificationOptions options = options_of(1);
  options.optimizer.learning_rate = std::numeric_limits<double>::quiet_NaN();
  const Verification verification =
      Verifier(test_environment(), options, decoder_on_synthetic_tokens(model_of(0, false), 1)).on(grids().front());
  EXPECT_FALSE(verification.passes());
  EXPECT_FALSE(verification.differences.front().passes()) << verification.differences.front().what;
}

}  // namespace
}  // namespace axonn
