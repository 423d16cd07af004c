#include "axonn/network/gpt/gpt_shape.hpp"

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/network/gpt/gpt_presets.hpp"

namespace axonn {
namespace {

constexpr GptShape kSmall = {.layers = 2, .hidden = 6, .heads = 3, .sequence = 5, .vocabulary = 11};

TEST(ParameterCounts, AreThoseOfTheTensorsWrittenOut) {
  const ParameterCounts counts = count_parameters(kSmall);
  EXPECT_EQ(counts.token_embedding, 66);
  EXPECT_EQ(counts.position_embedding, 30);
  EXPECT_EQ(counts.block.qkv, 18 * 6);
  EXPECT_EQ(counts.block.projection, 6 * 6);
  EXPECT_EQ(counts.block.mlp, 24 * 6 + 6 * 24);
  EXPECT_EQ(counts.block.norms, 4 * 6);
  EXPECT_EQ(counts.block.biases, 18 + 6 + 24 + 6);
  EXPECT_EQ(counts.final_norm, 12);
  EXPECT_EQ(counts.head, 66);
  EXPECT_EQ(counts.total(), 66 + 30 + 2 * (108 + 36 + 288 + 24 + 54) + 12 + 66);
}

TEST(ParameterCounts, TheWidthOfAnMlpMayBeAny) {
  GptShape narrow = kSmall;
  narrow.mlp_hidden = 10;
  const ParameterCounts counts = count_parameters(narrow);
  EXPECT_EQ(counts.block.mlp, 10 * 6 + 6 * 10);
  EXPECT_EQ(counts.block.biases, 18 + 6 + 10 + 6);
  EXPECT_DOUBLE_EQ(forward_flops_per_token(kSmall) - forward_flops_per_token(narrow), 2.0 * 2 * (24 - 10) * 12);
  narrow.mlp_hidden = 24;
  EXPECT_EQ(count_parameters(narrow).total(), count_parameters(kSmall).total());
}

TEST(ParameterCounts, ATiedHeadCostsNothing) {
  GptShape tied = kSmall;
  tied.tied_head = true;
  EXPECT_EQ(count_parameters(tied).total(), count_parameters(kSmall).total() - 66);
}

// Multiply-adds of every product, one by one.
TEST(Flops, AreTwoForEveryMultiplyAdd) {
  double multiply_adds = 0;
  for (int layer = 0; layer < 2; ++layer) {
    multiply_adds += 6 * 18 + 6 * 6 + 6 * 24 + 24 * 6;  // matrices
    multiply_adds += 3 * (2 * 5) + 3 * (5 * 2);         // 3 heads of 2: one query against 5 keys, 5 values
  }
  multiply_adds += 6 * 11;
  EXPECT_DOUBLE_EQ(forward_flops_per_token(kSmall), 2 * multiply_adds);
  EXPECT_DOUBLE_EQ(model_flops_per_token(kSmall), 6 * multiply_adds);
}

TEST(Flops, OfThePaperCountTheBlocksFourTimesAndTheHeadThrice) {
  for (const GptPreset& preset : gpt_presets()) {
    const auto& shape = preset.shape;
    const double head = 2.0 * static_cast<double>(shape.vocabulary * shape.hidden);
    const double blocks = forward_flops_per_token(shape) - head;
    const double tokens = 8.0 * static_cast<double>(shape.sequence);
    EXPECT_NEAR(checkpointed_flops(shape, 8) / (tokens * (4 * blocks + 3 * head)), 1, 1e-12) << preset.name;
  }
}

TEST(Flops, AreAboutSixAParameterForLargeModels) {
  const auto& shape = find_gpt_preset("gpt80b").shape;
  const double six = 6.0 * static_cast<double>(count_parameters(shape).total());
  EXPECT_NEAR(model_flops_per_token(shape) / six, 1, 0.05);
}

TEST(Transformer, RefusesSizesThatAreNone) {
  const auto changed = [](int64_t GptShape::* size, int64_t value) {
    GptShape shape = kSmall;
    shape.*size = value;
    return shape;
  };
  for (const auto size :
       {&GptShape::layers, &GptShape::hidden, &GptShape::heads, &GptShape::sequence, &GptShape::vocabulary})
    for (const int64_t value : {0, -3}) EXPECT_THROW(count_parameters(changed(size, value)), UserError);
  EXPECT_THROW(forward_flops_per_token(changed(&GptShape::heads, 4)), UserError);
  EXPECT_THROW(checkpointed_flops(GptShape{}, 1), UserError);
}

}  // namespace
}  // namespace axonn
