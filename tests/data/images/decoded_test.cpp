// Images beside a second decoder: decoded.json has files and their pixels, written by
// decode_with_pillow.py.
#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/data/images/image_file.hpp"
#include "data/images/exif.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (size_t at = 0; at + 1 < digits.size(); at += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(at, 2), nullptr, 16));
  return bytes;
}

TEST(DecodedImages, AreThoseOfASecondDecoder) {
  const test::Scratch scratch;
  const auto cases = nlohmann::json::parse(test::read(DECODED));
  ASSERT_GE(cases.size(), 50U);
  for (const auto& one : cases) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const std::string file = scratch.file("image", bytes_of(one["file"])), expected = bytes_of(one["pixels"]);
    check_image_file(file);
    const Image image = read_image(file);
    EXPECT_EQ(image.width, one["width"].get<int64_t>());
    EXPECT_EQ(image.height, one["height"].get<int64_t>());
    ASSERT_EQ(image.pixels.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(std::abs(image.pixels[i] - static_cast<unsigned char>(expected[i])), one["within"].get<int>())
          << "value " << i << " is " << int{image.pixels[i]};
  }
}

// A JPEG that is decoded at a fraction of its size is upright, too.
TEST(DecodedImages, AreUprightAtAFractionOfTheirSize) {
  const test::Scratch scratch;
  for (const auto& one : nlohmann::json::parse(test::read(DECODED))) {
    if (!one["name"].get<std::string>().starts_with("jpeg-II-")) continue;
    SCOPED_TRACE(one["name"].get<std::string>());
    const std::string expected = bytes_of(one["pixels"]);
    const auto width = one["width"].get<int64_t>();
    const Image image = read_image(scratch.file("image", bytes_of(one["file"])), 8);
    ASSERT_EQ(image.width, width / 2);
    const auto corner = [&](const auto& pixels, int64_t at) {
      return static_cast<unsigned char>(pixels[static_cast<size_t>(at)]);
    };
    for (int64_t channel = 0; channel < 3; ++channel) {
      EXPECT_NEAR(corner(image.pixels, channel), corner(expected, channel), 4);
      EXPECT_NEAR(corner(image.pixels, std::ssize(image.pixels) - 3 + channel),
                  corner(expected, std::ssize(expected) - 3 + channel), 4);
    }
  }
}

TEST(Exif, OfAnyLengthIsReadWithinIt) {
  const std::string block("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0", 26);
  for (size_t length = 0; length <= block.size(); ++length) {
    const std::vector<uint8_t> cut(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(exif_orientation(cut), length >= 20 ? 6 : 1) << length;
  }
}

}  // namespace
}  // namespace axonn
