// Networks of Llama's, Mistral's and Qwen's kind: any grid gives the numbers of one rank, and any
// overlap, linear schedule and schedule of the optimizer the bits of the plain ones.
#include <gtest/gtest.h>

#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "model/beside_one_rank.hpp"
#include "model/small_decoders.hpp"
#include "support/every_grid.hpp"

namespace axonn {
namespace {

// Sizes divide by every axis of 8 ranks, but for the MLP and the vocabulary.
DecoderShape llama() {
  return test::small_llama(
      {.heads = 48, .head_dim = 2, .mlp_hidden = 100, .sequence = 6, .rope_factor = 4, .rope_original = 4});
}

struct Family {
  const char* name;
  DecoderShape shape;
};

std::vector<Family> families() {
  std::vector<Family> all = {{"llama", llama()}, {"mistral", llama()}, {"qwen2", llama()}, {"qwen3", llama()}};
  all[1].shape.window = 3;
  all[2].shape.qkv_bias = true;
  all[2].shape.tied_head = true;
  all[2].shape.window = 2;
  all[2].shape.windowed_layers = 1;
  all[3].shape.qk_norm = true;
  all[3].shape.head_dim = 4;
  return all;
}

VerificationOptions options() { return {.batch = test_environment().ranks() % 3 == 0 ? 36 : 48, .micro_batches = 1}; }

void expect_equal(const Family& family, const DecoderConfig& config, const VerificationOptions& options,
                  const std::vector<GridShape>& grids) {
  test::expect_equals_one_rank(decoder_on_synthetic_tokens(config, options.seed), options, grids, family.name);
}

TEST(FamiliesOnEveryGrid, EqualOneRank) {
  for (const Family& family : families()) {
    VerificationOptions with = options();
    expect_equal(family, {.shape = family.shape}, with, test::every_grid());
  }
}

// Each with other rows at a time, recomputation and dropout, under each linear schedule.
TEST(FamiliesOnEveryGrid, EqualOneRankWithAllThatOverlaps) {
  const std::vector<GridShape> all = test::every_grid();
  size_t turn = 0;
  for (const auto schedule : {LinearSchedule::mm_ar_c, LinearSchedule::mm_rs_c_ag, LinearSchedule::overlap}) {
    const Family family = families()[turn++ % 4];
    VerificationOptions with = options();
    with.micro_batches = 2;
    with.forward = {.split = 2, .linear = schedule};
    expect_equal(family, {.shape = family.shape, .dropout = 0.2, .checkpoint_every = 2}, with,
                 {all[turn % all.size()]});
  }
}

}  // namespace
}  // namespace axonn
