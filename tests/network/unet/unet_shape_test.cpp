#include "axonn/network/unet/unet_shape.hpp"

#include <gtest/gtest.h>

#include "axonn/network/unet/unet_presets.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

// Counted by PyTorch, on a module written separately from the same paper.
TEST(UnetParameters, AreThoseOfAnotherImplementation) {
  EXPECT_EQ(count_parameters(UnetShape{}), 6472195);
  EXPECT_EQ(count_parameters(UnetShape{.scale_shift = true}), 6949187);
  EXPECT_EQ(count_parameters(UnetShape{.base = 32, .multipliers = {1, 3}, .blocks = 1, .attention = {32}}), 1260483);
  EXPECT_EQ(count_parameters(find_unet_preset("unet250m").shape), 209976323);
}

TEST(UnetParameters, GrowByClassesAndLearnedVariance) {
  EXPECT_EQ(count_parameters(UnetShape{.classes = 10}), 6472195 + 10 * 256);
  EXPECT_EQ(count_parameters(UnetShape{.learned_variance = true}), 6472195 + 3 * (9 * 64 + 1));
}

// PyTorch's FlopCounterMode on the same module.
TEST(UnetFlops, AreThoseOfAnotherImplementation) { EXPECT_DOUBLE_EQ(forward_flops(UnetShape{}), 3174891520.0); }

TEST(UnetStages, TakeEverySkipAtTheLevelThatKeptIt) {
  for (const UnetPreset& preset : unet_presets()) {
    std::vector<UnetStage> kept;
    for (const UnetStage& stage : unet_stages(preset.shape)) {
      if (stage.skip > 0) {
        ASSERT_FALSE(kept.empty()) << preset.name;
        const UnetStage& from = kept.back();
        EXPECT_EQ(stage.skip, from.out) << stage.name;
        EXPECT_EQ(stage.level, from.kind == UnetStage::Kind::down ? from.level + 1 : from.level) << stage.name;
        kept.pop_back();
      }
      if (stage.kept) kept.push_back(stage);
    }
    EXPECT_TRUE(kept.empty()) << preset.name;
  }
}

TEST(UnetPresets, GoUpInSizeAndFit) {
  int64_t last = 0;
  for (const UnetPreset& preset : unet_presets()) {
    EXPECT_NO_THROW(check_unet(preset.shape)) << preset.name;
    const int64_t parameters = count_parameters(preset.shape);
    EXPECT_GT(parameters, last) << preset.name;
    last = parameters;
  }
}

TEST(UnetErrors, NameTheSizesThatDoNotFit) {
  EXPECT_USER_ERROR(check_unet({.image = 30, .multipliers = {1, 2, 2}}),
                    "images of 30 x 30 cannot be halved 2 times, as 3 levels do");
  EXPECT_USER_ERROR(check_unet({.base = 48}), "got 32 groups and 48 channels in down.0.residual");
  EXPECT_USER_ERROR(check_unet({.heads = 3}), "got 3 heads and 128 channels in");
  EXPECT_USER_ERROR(check_unet({.multipliers = {}}), "one level at least");
  EXPECT_USER_ERROR(check_unet({.blocks = 0}), "blocks must be positive, got 0");
}

}  // namespace
}  // namespace axonn
