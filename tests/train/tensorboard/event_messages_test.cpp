// The bytes were encoded by hand in Python, from event.proto, summary.proto and tensor.proto.
#include "train/tensorboard/event_messages.hpp"

#include <gtest/gtest.h>

#include "train/tensorboard/hex_text.hpp"

namespace axonn {
namespace {

using test::hex_text;

constexpr EventMoment kMoment{.wall_time = 1.5, .step = 300};
const std::string kMomentText = "09000000000000f83f10ac02";

TEST(EventMessages, AFileBeginsWithItsVersion) {
  EXPECT_EQ(hex_text(version_event(kMoment)), kMomentText + "1a0d627261696e2e4576656e743a32");
}

TEST(EventMessages, AStartSaysItsStep) { EXPECT_EQ(hex_text(start_event(kMoment)), kMomentText + "3a020801"); }

TEST(EventMessages, CurvesHaveOneValuePerTag) {
  EXPECT_EQ(hex_text(scalars_event(kMoment, {{"loss", 2.5}, {"a/b", -1}})),
            kMomentText + "2a190a0b0a046c6f737315000020400a0a0a03612f6215000080bf");
}

TEST(EventMessages, ATextIsATensorForThePluginOfTexts) {
  EXPECT_EQ(hex_text(text_event(kMoment, "s", "hi")),
            kMomentText + "2a1f0a1d0a0173420c0807120412020801420268694a0a0a060a04746578742002");
}

TEST(EventMessages, AnImageHasTheSizeInItsFile) {
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\2\0\0\0\3", 24);
  EXPECT_EQ(hex_text(image_event(kMoment, "s", png)),
            kMomentText + "2a280a260a0173222108031082021803221889504e470d0a1a0a0000000d494844520000010200000003");
}

}  // namespace
}  // namespace axonn
