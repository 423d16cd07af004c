// Networks of Llama's, Mistral's and Qwen's kind: any grid gives the numbers of one rank, and any
// overlap, linear schedule and schedule of the optimizer the bits of the plain ones.
#include <gtest/gtest.h>

#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "support/every_grid.hpp"

namespace axonn {
namespace {

// Sizes divide by every axis of 8 ranks, but for the MLP and the vocabulary.
DecoderShape llama() {
  DecoderShape shape = rotated({.layers = 2,
                                .hidden = 48,
                                .heads = 48,
                                .kv_heads = 24,
                                .head_dim = 2,
                                .mlp_hidden = 100,
                                .sequence = 6,
                                .vocabulary = 101,
                                .gated = true});
  shape.rope_factor = 4;
  shape.rope_original = 4;
  return shape;
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
  Verifier verifier(test_environment(), options, decoder_on_synthetic_tokens(config, options.seed));
  for (const GridShape& grid : grids)
    for (const auto& difference : verifier.on(grid).differences)
      EXPECT_LE(difference.relative, difference.tolerance)
          << family.name << ": " << difference.what << " on " << grid.to_string();
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
