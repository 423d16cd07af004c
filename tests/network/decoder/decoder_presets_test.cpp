#include "axonn/network/decoder/decoder_presets.hpp"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

std::string refusal(std::string_view name) {
  try {
    find_decoder_preset(name);
  } catch (const UserError& error) {
    return error.sentence();
  }
  return "no error";
}

int64_t parameters(std::string_view name) { return parameters_of(find_decoder_preset(name).shape); }

TEST(DecoderPresets, HaveThePublishedParameters) {
  EXPECT_EQ(parameters("gpt-124m"), 124439808);  // GPT-2 small
  // 2 * 256 * 128 + 128 * 128 + 4 * (12 * 128^2 + 13 * 128) + 2 * 128
  EXPECT_EQ(parameters("gpt-tiny"), 65536 + 16384 + 4 * 198272 + 256);
  // 2 * 51200 * 12288 + 2048 * 12288 + 42 * (12 * 12288^2 + 13 * 12288) + 2 * 12288
  EXPECT_EQ(parameters("gpt80b"), 1258291200 + 25165824 + int64_t{42} * (1811939328 + 159744) + 24576);
}

TEST(DecoderPresets, OfThePaperAreAsLargeAsTheirNames) {
  for (const auto& [name, billions] :
       {std::pair{"gpt5b", 5.0}, {"gpt10b", 10.0}, {"gpt20b", 20.0}, {"gpt40b", 40.0}, {"gpt80b", 80.0}}) {
    EXPECT_NEAR(static_cast<double>(parameters(name)) / (billions * 1e9), 1, 0.07) << name;
    const auto& shape = find_decoder_preset(name).shape;
    EXPECT_EQ(shape.sequence, 2048);
    EXPECT_EQ(shape.vocabulary, 51200);
    EXPECT_EQ(shape.hidden / shape.heads, 128);
    EXPECT_FALSE(shape.tied_head);
  }
}

TEST(DecoderPresets, AreFoundByNameAlone) {
  for (const DecoderPreset& preset : decoder_presets()) EXPECT_EQ(find_decoder_preset(preset.name).shape, preset.shape);
  EXPECT_EQ(refusal("gpt-125m"), "unknown model 'gpt-125m'; did you mean 'gpt-124m'?");
  EXPECT_EQ(refusal("gpt80"), "unknown model 'gpt80'; did you mean 'gpt80b'?");
  EXPECT_EQ(refusal("mistral-large"), "unknown model 'mistral-large'; the models are " + preset_names<DecoderShape>());
}

}  // namespace
}  // namespace axonn
