// Any grid of ranks on one GPU gives the numbers of one rank on it.
#include <gtest/gtest.h>

#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

void expect_equal_on_every_grid(double dropout, bool tied, int64_t micro_batches) {
  const DecoderConfig model = {
      .shape = {.layers = 2, .hidden = 48, .heads = 12, .sequence = 8, .vocabulary = 101, .tied_head = tied},
      .dropout = dropout};
  const VerificationOptions options{.device = c10::kCUDA,
                                    .gpu_kernels = {.deterministic = true},
                                    .batch = 48,
                                    .micro_batches = micro_batches,
                                    .steps = 3};
  Verifier verifier(test_environment(), options, decoder_on_synthetic_tokens(model, options.seed));
  for (const GridShape& shape : factorisations(test_environment().ranks()))
    for (const auto& difference : verifier.on(shape).differences)
      EXPECT_LE(difference.relative, difference.tolerance) << difference.what << " on " << shape.to_string();
}

TEST(GptOnOneGpu, EqualsOneRank) { expect_equal_on_every_grid(0, false, 1); }
TEST(GptOnOneGpu, EqualsOneRankWithDropoutTiedHeadAndAccumulation) { expect_equal_on_every_grid(0.2, true, 3); }

}  // namespace
}  // namespace axonn
