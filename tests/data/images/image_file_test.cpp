#include "axonn/data/images/image_file.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <gtest/gtest.h>

#include "data/images/image_samples.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::jpeg_bytes;
using test::plain;
using test::png_bytes;
using test::Scratch;
using test::slope;
using Pixels = std::vector<uint8_t>;

int furthest(const Pixels& a, const Pixels& b) {
  EXPECT_EQ(a.size(), b.size());
  int most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(Png, ComesBackAsItWasWritten) {
  Scratch scratch;
  const std::string file = (scratch / "a.png").string();
  for (const auto& [width, height] : {std::pair<int64_t, int64_t>{1, 1}, {7, 5}, {64, 48}}) {
    const Image image = slope(width, height);
    write_png(file, image);
    check_image_file(file);
    const Image back = read_image(file);
    EXPECT_EQ(back.width, width);
    EXPECT_EQ(back.height, height);
    EXPECT_EQ(back.pixels, image.pixels);
  }
  EXPECT_FALSE(std::filesystem::exists(file + ".partial"));
}

TEST(Png, OfAnyKindBecomesEightBitRgb) {
  Scratch scratch;
  const auto pixels = [&](const std::string& bytes) { return read_image(scratch.file("a.png", bytes)).pixels; };
  EXPECT_EQ(pixels(png_bytes(2, 1, {17, 200}, {.colour = PNG_COLOR_TYPE_GRAY})), (Pixels{17, 17, 17, 200, 200, 200}));
  EXPECT_EQ(pixels(png_bytes(8, 1, {0b01111111}, {.bits = 1, .colour = PNG_COLOR_TYPE_GRAY})).at(3), 255);
  EXPECT_EQ(pixels(png_bytes(2, 1, {1, 0}, {.colour = PNG_COLOR_TYPE_PALETTE, .palette = {{9, 8, 7}, {1, 2, 3}}})),
            (Pixels{1, 2, 3, 9, 8, 7}));
  EXPECT_EQ(pixels(png_bytes(1, 1, {100, 100, 50, 50, 200, 200}, {.bits = 16})), (Pixels{100, 50, 200}));
  // Opaque and transparent.
  EXPECT_EQ(pixels(png_bytes(2, 1, {10, 20, 30, 255, 10, 20, 30, 0}, {.colour = PNG_COLOR_TYPE_RGBA})),
            (Pixels{10, 20, 30, 255, 255, 255}));
}

TEST(Png, NeedsADirectoryAndAWholeImage) {
  Scratch scratch;
  EXPECT_USER_ERROR(write_png((scratch / "none/a.png").string(), slope(4, 4)), "the directory", "none does not exist");
  std::filesystem::create_directory(scratch / "b.png");
  EXPECT_USER_ERROR(write_png((scratch / "b.png").string(), slope(4, 4)), "b.png: it is a directory");
  EXPECT_USER_ERROR(write_png((scratch / "c.png").string(), {.width = 4, .height = 4, .pixels = Pixels(47)}),
                    "c.png: 47 bytes are no image of 4 x 4");
}

TEST(Jpeg, IsReadWithinWhatItLost) {
  Scratch scratch;
  const Image image = slope(40, 24);
  const std::string file = scratch.file("a.jpg", jpeg_bytes(image));
  check_image_file(file);
  const Image back = read_image(file);
  EXPECT_EQ(back.width, 40);
  EXPECT_EQ(back.height, 24);
  EXPECT_LE(furthest(back.pixels, image.pixels), 12);
  EXPECT_LE(furthest(read_image(scratch.file("grey.jpg", jpeg_bytes(16, 16, Pixels(256, 90), 1))).pixels,
                     plain(16, 16, 90, 90, 90).pixels),
            1);
}

TEST(Jpeg, ComesSmallerWhereThatIsEnough) {
  Scratch scratch;
  const std::string file = scratch.file("a.jpg", jpeg_bytes(plain(80, 64, 200, 100, 50)));
  for (const auto& [side, width, height] :
       {std::array<int64_t, 3>{65, 80, 64}, {33, 80, 64}, {32, 40, 32}, {9, 20, 16}, {1, 10, 8}}) {
    const Image image = read_image(file, side);
    EXPECT_EQ(image.width, width) << side;
    EXPECT_EQ(image.height, height) << side;
    EXPECT_LE(furthest(image.pixels, plain(width, height, 200, 100, 50).pixels), 3) << side;
  }
}

TEST(ImageFiles, AreKnownByTheirFirstBytes) {
  Scratch scratch;
  EXPECT_EQ(read_image(scratch.file("png.jpg", png_bytes(slope(6, 6)))).pixels, slope(6, 6).pixels);
  for (const char* content : {"GIF89a and more", "\xff\xd8", "\x89PNG", "text"}) {
    const std::string file = scratch.file("a.png", content);
    EXPECT_USER_ERROR(check_image_file(file), file + " is neither a PNG nor a JPEG file");
    EXPECT_USER_ERROR(read_image(file), file + " is neither a PNG nor a JPEG file");
  }
  EXPECT_USER_ERROR(check_image_file(scratch.file("a.png", "")), "a.png is empty");
  EXPECT_USER_ERROR(check_image_file((scratch / "none.png").string()), "cannot read", "none.png: No such file");
  const std::string cmyk = scratch.file("print.jpg", jpeg_bytes(8, 8, Pixels(256, 90), 4));
  EXPECT_USER_ERROR(check_image_file(cmyk), cmyk + " is a JPEG in CMYK");
  EXPECT_USER_ERROR(read_image(cmyk), cmyk + " is a JPEG in CMYK");
}

// Files truncated at every length. Decoding also fails, except for the last 20 bytes of a PNG: two
// checksums of 4 bytes, and 12 bytes of IEND.
TEST(ImageFiles, ThatAreCutShortAreNamed) {
  Scratch scratch;
  for (const std::string& whole : {png_bytes(slope(20, 12)), jpeg_bytes(slope(20, 12))}) {
    for (size_t length = 1; length < whole.size(); ++length) {
      const std::string file = scratch.file("cut", whole.substr(0, length));
      EXPECT_USER_ERROR(check_image_file(file), file);
      if (length + 20 < whole.size() || whole.starts_with('\xff')) EXPECT_USER_ERROR(read_image(file), file);
    }
    EXPECT_USER_ERROR(check_image_file((scratch / "cut").string()), "cut is cut short: the mark that ends a");
  }
}

TEST(ImageFiles, MayBeFollowedByOtherBytes) {
  Scratch scratch;
  for (const std::string& whole : {png_bytes(slope(20, 12)), jpeg_bytes(slope(20, 12))}) {
    const std::string file = scratch.file("more", whole + std::string(1000, '\0'));
    check_image_file(file);
    EXPECT_EQ(read_image(file).pixels, read_image(scratch.file("whole", whole)).pixels);
  }
}

TEST(ImageFiles, ThatAreCorruptInsideAreNamedWhenTheyAreDecoded) {
  Scratch scratch;
  std::string png = png_bytes(slope(40, 30)), jpeg = jpeg_bytes(slope(40, 30));
  png[png.size() / 2] ^= 0x55;
  jpeg.replace(jpeg.size() - 60, 2, "\xff\xd9");
  for (const auto& [name, bytes] : {std::pair{"a.png", png}, {"a.jpg", jpeg}}) {
    const std::string file = scratch.file(name, bytes);
    check_image_file(file);
    EXPECT_USER_ERROR(read_image(file), file + " is a corrupt");
  }
}

}  // namespace
}  // namespace axonn
