#include "axonn/network/decoder/decoder_network.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/network/unet/unet_memory.hpp"

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/grid/shard_spec.hpp"
#include "axonn/network/decoder/decoder_presets.hpp"

namespace axonn {
namespace {

const DecoderShape kLarge = find_decoder_preset("gpt80b").shape;
const DecoderShape kGpt2 = find_decoder_preset("gpt-124m").shape;

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

TEST(Memory, OfOneRankHoldsEveryParameterOnce) {
  for (const DecoderPreset& preset : decoder_presets()) {
    const auto predicted = predict_memory(preset.shape, {}, {.element_bytes = 4});
    const int64_t rows = Dim::padded(preset.shape.vocabulary, Axis::x).local_size({}, {});
    const int64_t padding = (rows - preset.shape.vocabulary) * preset.shape.hidden;
    // All other sizes are multiples of 64 bytes.
    EXPECT_EQ(predicted.weight_bytes, 4 * (parameters_of(preset.shape) + padding)) << preset.name;
    EXPECT_EQ(predicted.gathered_bytes, 0) << preset.name;
  }
}

TEST(Memory, OfWeightsGradientsAndOptimizerShrinksWithXYZAndNotWithData) {
  const auto one = predict_memory(kLarge, {}, {});
  for (const GridShape& grid :
       {GridShape{.x = 8}, GridShape{.y = 8}, GridShape{.z = 8}, GridShape{.x = 4, .y = 2, .z = 8}}) {
    const auto part = predict_memory(kLarge, grid, {});
    const auto degree = static_cast<double>(grid.ranks());
    EXPECT_NEAR(ratio(one.weight_bytes, part.weight_bytes) / degree, 1, 0.01) << grid.to_string();
    EXPECT_NEAR(ratio(one.gradient_bytes, part.gradient_bytes) / degree, 1, 0.01) << grid.to_string();
    EXPECT_NEAR(ratio(one.optimizer_bytes, part.optimizer_bytes) / degree, 1, 0.01) << grid.to_string();
    GridShape copies = grid;
    copies.data = 16;
    EXPECT_EQ(predict_memory(kLarge, copies, {}).total_bytes(), part.total_bytes()) << grid.to_string();
  }
}

// Korthikanti et al. (2022): 10 of the 34 bytes per token and feature stay whole with tensor
// parallelism; 2 of them are the masks of dropout.
TEST(Memory, OfNormsShrinksWithXIfRowsAreSharded) {
  const GridShape grid = {.x = 8};
  const auto plain = predict_memory(kLarge, grid, {.element_bytes = 2}),
             sharded = predict_memory(kLarge, grid, {.element_bytes = 2, .norm_rows = true});
  const int64_t norms = kLarge.layers * 4 + 2;  // inputs and outputs of norms, of every block and at the end
  EXPECT_EQ(plain.activation_bytes - sharded.activation_bytes,
            2 * kLarge.sequence * norms * (kLarge.hidden - kLarge.hidden / 8));
  EXPECT_EQ(plain.weight_bytes, sharded.weight_bytes);
}

TEST(Memory, OfGradientsIsDividedOverDataIfAsked) {
  const GridShape grid = {.x = 2, .data = 8};
  MemoryOptions options = {.divided_update = true};
  const auto whole = predict_memory(kGpt2, grid, options);
  options.divided_gradients = true;
  const auto divided = predict_memory(kGpt2, grid, options);
  EXPECT_NEAR(ratio(whole.gradient_bytes, divided.gradient_bytes), 8, 0.01);
  EXPECT_EQ(whole.optimizer_bytes, divided.optimizer_bytes);
}

// kLarge's keys are as many as its queries.
TEST(Memory, OfADividedContextHasTheRowsOfOneRankAndPassesKeysAndValues) {
  const GridShape grid = {.x = 4, .z = 8};
  const auto of = [&](ContextSplit context) { return predict_memory(kLarge, grid, {.context = context}); };
  const auto whole = of({}), passed = of({.ranks = 8}), gathered = of({.ranks = 8, .gathers = true});
  EXPECT_EQ(whole.logits_bytes, 8 * passed.logits_bytes);
  EXPECT_EQ(whole.weight_bytes + whole.gradient_bytes + whole.optimizer_bytes + whole.gathered_bytes,
            passed.weight_bytes + passed.gradient_bytes + passed.optimizer_bytes + passed.gathered_bytes);
  // Keys, values and both gradients of a rank's tokens, over X. Those that pass have buffers for
  // two ranks all the time, and in a block two sums of both gradients.
  const int64_t one = 4 * 4 * kLarge.hidden / 4 * kLarge.sequence / 8;
  EXPECT_EQ(whole.activation_bytes, 8 * (passed.activation_bytes - 2 * one));
  EXPECT_EQ(passed.block_bytes, whole.block_bytes / 8 + one);
  EXPECT_EQ(gathered.block_bytes, whole.block_bytes / 8 + 8 * one);
  EXPECT_EQ(gathered.activation_bytes, passed.activation_bytes - 2 * one);
  EXPECT_THROW(of({.ranks = 0}), UserError);
}

// Of scores a ring keeps a number per query and head, with dropout, too.
TEST(Memory, OfAPassedContextHasNoProbabilities) {
  const GridShape grid = {.x = 4, .y = 2, .z = 8};
  const ContextSplit context = {.ranks = 8};
  const auto bytes = [&](const MemoryOptions& options) {
    return predict_memory(kLarge, grid, options).activation_bytes;
  };
  const int64_t fused = bytes({.context = context}), tokens = kLarge.sequence / 8;
  EXPECT_EQ(bytes({.attention_block = 64, .context = context}), fused);
  EXPECT_EQ(bytes({.dropout = true, .context = context}) - fused,
            4 * tokens * (2 * kLarge.layers + 1) * kLarge.hidden / 2);
  // Half of the logarithms, and half of the queries and outputs once more.
  EXPECT_EQ(bytes({.attention_rows = true, .context = context}) - fused,
            4 * tokens * kLarge.layers * (kLarge.hidden / 4 - kLarge.heads / 4 / 2));
  const int64_t travelling = 2 * 4 * 4 * kLarge.hidden / 4 * tokens;
  EXPECT_EQ(8 * (bytes({.document_mask = true, .context = context}) - travelling), bytes({.document_mask = true}));
}

TEST(Memory, FollowsTheWidthOfTheMlp) {
  DecoderShape narrow = kGpt2;
  narrow.mlp_hidden = 3 * kGpt2.hidden;  // by default 4 * hidden
  const int64_t layers = kGpt2.layers, fewer = kGpt2.hidden / 2, over_y = kGpt2.hidden / 2;
  const auto wide_memory = predict_memory(kGpt2, {.x = 2, .y = 2}, {});
  const auto narrow_memory = predict_memory(narrow, {.x = 2, .y = 2}, {});
  // Two matrices and one bias per layer.
  EXPECT_EQ(wide_memory.weight_bytes - narrow_memory.weight_bytes, 4 * layers * (2 * fewer * over_y + fewer));
  EXPECT_EQ(wide_memory.activation_bytes - narrow_memory.activation_bytes, 4 * kGpt2.sequence * layers * 2 * fewer);
  EXPECT_EQ(wide_memory.block_bytes - narrow_memory.block_bytes, 4 * kGpt2.sequence * 2 * fewer);
}

TEST(Memory, OfTheOptimizerIsItsMoments) {
  const auto bytes = [](OptimizerKind kind) {
    return predict_memory(kGpt2, {.x = 2}, {.moments = optimizer_moments(kind)}).optimizer_bytes;
  };
  const int64_t weights = predict_memory(kGpt2, {.x = 2}, {}).weight_bytes;
  EXPECT_EQ(bytes(OptimizerKind::sgd), 0);
  EXPECT_EQ(bytes(OptimizerKind::sgd_momentum), weights);
  EXPECT_EQ(bytes(OptimizerKind::adamw), 2 * weights);
}

TEST(Memory, OfGatheredWeightsIsTwoOfTheLargestBlock) {
  // 51200 x 12288 of the embedding is larger than 12288 x 49152 of the mlp
  for (const int z : {2, 8, 16})
    EXPECT_EQ(predict_memory(kLarge, {.x = 4, .y = 2, .z = z}, {}).gathered_bytes, 2 * (51200 / 4) * (12288 / 2) * 4)
        << z;
  DecoderShape few_words = kLarge;
  few_words.vocabulary = 256;
  EXPECT_EQ(predict_memory(few_words, {.x = 4, .y = 2, .z = 8}, {}).gathered_bytes, 2 * (49152 / 4) * (12288 / 2) * 4);
}

TEST(Memory, OfBf16HoldsMasterWeightsAndStateInFp32) {
  const auto fp32 = predict_memory(kGpt2, {.x = 2, .z = 2}, {});
  const auto bf16 =
      predict_memory(kGpt2, {.x = 2, .z = 2}, {.element_bytes = 2, .gradient_bytes = 4, .state_bytes = 4});
  EXPECT_EQ(2 * bf16.weight_bytes, 3 * fp32.weight_bytes);
  EXPECT_EQ(bf16.gradient_bytes, fp32.gradient_bytes);
  EXPECT_EQ(bf16.optimizer_bytes, fp32.optimizer_bytes);
  EXPECT_EQ(2 * bf16.activation_bytes, fp32.activation_bytes);
  const auto narrow =
      predict_memory(kGpt2, {.x = 2, .z = 2}, {.element_bytes = 2, .gradient_bytes = 2, .state_bytes = 4});
  EXPECT_EQ(2 * narrow.gradient_bytes, 3 * fp32.gradient_bytes);  // with a wide copy for the optimizer
}

TEST(Memory, OfTheCacheIsItsBudgetOrAllMatrices) {
  const auto gathered = [](int64_t cache) {
    return predict_memory(kLarge, {.x = 4, .y = 2, .z = 8},
                          {.gathered_blocks = 2, .scattered_blocks = 3, .cache_bytes = cache})
        .gathered_bytes;
  };
  const int64_t block = (51200 / 4) * (12288 / 2) * 4;
  EXPECT_EQ(gathered(0), 5 * block);
  EXPECT_EQ(gathered(1 << 20), 5 * block + (1 << 20));
  EXPECT_EQ(gathered(int64_t{1} << 50), gathered(int64_t{1} << 51));
}

TEST(Memory, OfCheckpointedBlocksIsTheirInputs) {
  const DecoderShape shape = {.layers = 4, .hidden = 48, .heads = 6, .sequence = 10, .vocabulary = 100};
  const auto kept = [&](int64_t every) {
    return predict_memory(shape, {}, {.element_bytes = 1, .checkpoint_every = every}).activation_bytes;
  };
  const int64_t block = 10 * (16 * 48 + 6 + 4), last = 10 * (2 * 48 + 2);
  EXPECT_EQ(kept(0), 4 * block + last);
  EXPECT_EQ(kept(1), block + 4 * 480 + last);
  EXPECT_EQ(kept(3), 3 * block + 2 * 480 + last);  // blocks 0 and 3
}

TEST(Memory, OfActivationsIsTheSumOfWhatAreKept) {
  const DecoderShape shape = {.layers = 3, .hidden = 48, .heads = 6, .sequence = 10, .vocabulary = 100};
  const int64_t rows = 2 * 10;
  const auto kept = predict_memory(shape, {.x = 2, .y = 3}, {.micro_batch = 2, .element_bytes = 8}).activation_bytes;
  EXPECT_EQ(kept, 8 * rows * (3 * (4 * 16 + 12 * 24 + 3 + 4) + 2 * 16 + 2));
  const auto blocks =
      predict_memory(shape, {.x = 2, .y = 3}, {.micro_batch = 2, .element_bytes = 8, .attention_block = 4})
          .activation_bytes;
  EXPECT_EQ(blocks, 8 * rows * (3 * (4 * 16 + 12 * 24 + 3 * 7 + 4) + 2 * 16 + 2));
  const auto dropped =
      predict_memory(shape, {.x = 2, .y = 3}, {.micro_batch = 2, .element_bytes = 8, .dropout = true}).activation_bytes;
  EXPECT_EQ(dropped, 8 * rows * (3 * (6 * 16 + 12 * 24 + 3 * 10 * 3 + 4) + 3 * 16 + 2));
  const auto tiled =
      predict_memory(
          shape, {.x = 2, .y = 3},
          {.micro_batch = 2, .element_bytes = 8, .dropout = true, .attention_tiles = true, .attention_block = 4})
          .activation_bytes;
  EXPECT_EQ(tiled, 8 * rows * (3 * (6 * 16 + 12 * 24 + 3 + 4) + 3 * 16 + 2));
}

// Rows of queries are divided over y. The fused kernel's own outputs are kept beside all of them.
TEST(Memory, OfDividedRowsHasTheirProbabilitiesOnly) {
  const DecoderShape shape = {.layers = 3, .hidden = 48, .heads = 6, .sequence = 10, .vocabulary = 100};
  const auto kept = [&](MemoryOptions options) {
    options.element_bytes = 1;
    options.attention_rows = true;
    return predict_memory(shape, {.x = 2, .y = 3}, options).activation_bytes;
  };
  EXPECT_EQ(kept({}), 10 * (3 * (4 * 16 + 12 * 24 + (3 + 24) / 3 + 4) + 2 * 16 + 2));
  EXPECT_EQ(kept({.attention_block = 4}), 10 * (3 * (4 * 16 + 12 * 24 + 3 * 7 / 3 + 4) + 2 * 16 + 2));
  EXPECT_EQ(kept({.dropout = true}), 10 * (3 * (6 * 16 + 12 * 24 + 3 * 10 * 3 / 3 + 4) + 3 * 16 + 2));
  const auto all = predict_memory(shape, {.x = 2}, {}),
             divided = predict_memory(shape, {.x = 2}, {.attention_rows = true});
  EXPECT_EQ(all.activation_bytes, divided.activation_bytes);
}

// One mask for all blocks, and one more for each block whose window is shorter than the sequence.
TEST(Memory, OfADocumentMaskIsASquareOfTheSequence) {
  DecoderShape shape = {.layers = 4, .hidden = 48, .heads = 6, .sequence = 10, .vocabulary = 100};
  constexpr int64_t kMask = 2 * 3 * 10 * 10;  // bytes of three sequences
  const auto more = [&](MemoryOptions options) {
    options.micro_batch = 3;
    options.element_bytes = 2;
    const int64_t plain = predict_memory(shape, {.x = 2, .y = 2}, options).activation_bytes;
    options.document_mask = true;
    return predict_memory(shape, {.x = 2, .y = 2}, options).activation_bytes - plain;
  };
  EXPECT_EQ(more({}), kMask);
  EXPECT_EQ(more({.attention_rows = true, .checkpoint_every = 1}), kMask);
  shape.window = 10;
  EXPECT_EQ(more({}), kMask);
  shape.window = 4;
  EXPECT_EQ(more({}), 5 * kMask);
  EXPECT_EQ(more({.dropout = true}), kMask);
  EXPECT_EQ(more({.attention_rows = true}), 3 * kMask);
  EXPECT_EQ(more({.checkpoint_every = 2}), 4 * kMask);  // blocks 1 and 3, and one that is run again
  shape.windowed_layers = 1;
  EXPECT_EQ(more({}), 2 * kMask);
  shape.windowed_layers = 0;
  EXPECT_EQ(more({.checkpoint_every = 1}), kMask);
}

TEST(Memory, OfActivationsAndLogitsFollowsTheMicroBatchAndTheElement) {
  const GridShape grid = {.x = 2, .y = 2, .z = 2};
  const auto one = predict_memory(kGpt2, grid, {.micro_batch = 1}),
             four = predict_memory(kGpt2, grid, {.micro_batch = 4});
  EXPECT_EQ(four.activation_bytes, 4 * one.activation_bytes);
  EXPECT_EQ(four.logits_bytes, 4 * one.logits_bytes);
  EXPECT_EQ(four.block_bytes, 4 * one.block_bytes);
  EXPECT_EQ(four.weight_bytes, one.weight_bytes);
  EXPECT_EQ(one.logits_bytes, 3 * 1024 * 25216 * 4);  // 50257 padded to a multiple of 2 x 128
  const auto wide = predict_memory(kGpt2, grid, {.micro_batch = 1, .element_bytes = 8});
  EXPECT_EQ(wide.activation_bytes, 2 * one.activation_bytes);
}

TEST(Memory, OfTheResidualStreamIsNotSplitOverXNorThatOfTheHiddenFeaturesOverY) {
  const int64_t one = predict_memory(kLarge, {}, {}).activation_bytes;
  EXPECT_NEAR(ratio(predict_memory(kLarge, {.x = 4}, {}).activation_bytes, one), (4 + 12 / 4.0) / 16, 0.01);
  EXPECT_NEAR(ratio(predict_memory(kLarge, {.y = 4}, {}).activation_bytes, one), (4 / 4.0 + 12) / 16, 0.01);
  EXPECT_EQ(predict_memory(kLarge, {.z = 4}, {}).activation_bytes, one);  // a rank's rows are its micro-batch
}

TEST(Memory, InTotalIsTheSumOfWhatLivesAtOnce) {
  MemoryPrediction parts = {.weight_bytes = 1,
                            .gradient_bytes = 2,
                            .optimizer_bytes = 4,
                            .gathered_bytes = 8,
                            .activation_bytes = 16,
                            .logits_bytes = 64,
                            .block_bytes = 32};
  EXPECT_EQ(parts.total_bytes(), 95);
  parts.block_bytes = 128;
  EXPECT_EQ(parts.total_bytes(), 159);
}

TEST(Memory, OfUnevenSizesIsThatOfTheFullestRank) {
  const DecoderShape shape = {.layers = 1, .hidden = 10, .heads = 5, .sequence = 4, .vocabulary = 7};
  const auto predicted = predict_memory(shape, {.x = 3, .y = 3}, {.micro_batch = 1});
  // Blocks of the rank with 4 of 10 features on both axes, 14 of the mlp's 40, 3 of 7 words.
  int64_t stored = 0;
  for (const int64_t elements : {3 * 4, 4 * 4, 12 * 4, 4 * 4, 14 * 4, 4 * 14, 3 * 4, 12, 14, 4, 4, 4, 4, 4, 4, 4, 4})
    stored += (elements + kRangeAlignment - 1) / kRangeAlignment * kRangeAlignment;
  EXPECT_EQ(predicted.weight_bytes, 4 * stored);
}

TEST(Memory, RefusesSizesThatAreNone) {
  EXPECT_THROW(predict_memory(kGpt2, {.x = 0}, {}), UserError);
  EXPECT_THROW(predict_memory(kGpt2, {}, {.micro_batch = 0}), UserError);
  EXPECT_THROW(predict_memory(kGpt2, {}, {.element_bytes = 0}), UserError);
  EXPECT_THROW(predict_memory(DecoderShape{}, {}, {}), UserError);
}

}  // namespace
}  // namespace axonn
