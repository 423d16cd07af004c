#include "axonn/network/decoder/decoder_network.hpp"

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/network/decoder/decoder_presets.hpp"

namespace axonn {
namespace {

constexpr DecoderShape kSmall = {.layers = 2, .hidden = 6, .heads = 3, .sequence = 5, .vocabulary = 11};

TEST(Parameters, AreThoseOfTheTensorsWrittenOut) {
  // Tokens, positions; qkv, projection, MLP, two norms, biases; last norm, head.
  const int64_t block = 18 * 6 + 6 * 6 + (24 * 6 + 6 * 24) + 4 * 6 + (18 + 6 + 24 + 6);
  EXPECT_EQ(parameters_of(kSmall), 66 + 30 + 2 * block + 12 + 66);
}

TEST(Parameters, TheWidthOfAnMlpMayBeAny) {
  DecoderShape narrow = kSmall;
  narrow.mlp_hidden = 10;
  EXPECT_EQ(parameters_of(kSmall) - parameters_of(narrow), 2 * (24 - 10) * (6 + 6 + 1));
  EXPECT_DOUBLE_EQ(forward_flops_per_token(kSmall) - forward_flops_per_token(narrow), 2.0 * 2 * (24 - 10) * 12);
  narrow.mlp_hidden = 24;
  EXPECT_EQ(parameters_of(narrow), parameters_of(kSmall));
}

TEST(Parameters, ATiedHeadCostsNothing) {
  DecoderShape tied = kSmall;
  tied.tied_head = true;
  EXPECT_EQ(parameters_of(tied), parameters_of(kSmall) - 66);
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
  for (const DecoderPreset& preset : decoder_presets()) {
    const auto& shape = preset.shape;
    const double head = 2.0 * static_cast<double>(shape.vocabulary * shape.hidden);
    const double blocks = forward_flops_per_token(shape) - head;
    const double tokens = 8.0 * static_cast<double>(shape.sequence);
    EXPECT_NEAR(checkpointed_flops(shape, 8) / (tokens * (4 * blocks + 3 * head)), 1, 1e-12) << preset.name;
  }
}

TEST(Flops, AreAboutSixAParameterForLargeModels) {
  const auto& shape = find_decoder_preset("gpt80b").shape;
  const double six = 6.0 * static_cast<double>(parameters_of(shape));
  EXPECT_NEAR(model_flops_per_token(shape) / six, 1, 0.05);
}

TEST(Transformer, RefusesSizesThatAreNone) {
  const auto changed = [](int64_t DecoderShape::* size, int64_t value) {
    DecoderShape shape = kSmall;
    shape.*size = value;
    return shape;
  };
  for (const auto size : {&DecoderShape::layers, &DecoderShape::hidden, &DecoderShape::heads, &DecoderShape::sequence,
                          &DecoderShape::vocabulary})
    for (const int64_t value : {0, -3}) EXPECT_THROW(parameters_of(changed(size, value)), UserError);
  EXPECT_THROW(forward_flops_per_token(changed(&DecoderShape::heads, 4)), UserError);
  EXPECT_THROW(checkpointed_flops(DecoderShape{}, 1), UserError);
}

}  // namespace
}  // namespace axonn
