#include "data/images/centre_square.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <gtest/gtest.h>

#include "data/images/image_samples.hpp"

namespace axonn {
namespace {

using test::plain;
using test::slope;
using Pixels = std::vector<uint8_t>;

Pixels square(const Image& image, int64_t size) {
  Pixels pixels(static_cast<size_t>(size * size * 3));
  centre_square(image, size, pixels);
  return pixels;
}

Image mirrored(const Image& image) {
  Image result = image;
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x)
      std::copy_n(image.pixels.begin() + (y * image.width + x) * 3, 3,
                  result.pixels.begin() + (y * image.width + image.width - 1 - x) * 3);
  return result;
}

TEST(CentreSquare, LeavesAPlainImagePlain) {
  for (const int64_t from : {1, 2, 7, 31, 64, 100})
    for (const int64_t to : {1, 3, 16, 31, 64})
      EXPECT_EQ(square(plain(from + 5, from, 255, 128, 3), to), plain(to, to, 255, 128, 3).pixels)
          << from << " to " << to;
}

TEST(CentreSquare, TakesTheMiddle) {
  const Image middle = slope(4, 4);
  Image wide = plain(12, 4, 0, 0, 0), high = plain(4, 12, 0, 0, 0);
  for (int64_t y = 0; y < 4; ++y) {
    std::copy_n(middle.pixels.begin() + y * 12, 12, wide.pixels.begin() + (y * 12 + 4) * 3);
    std::copy_n(middle.pixels.begin() + y * 12, 12, high.pixels.begin() + (y + 4) * 12);
  }
  EXPECT_EQ(square(wide, 4), middle.pixels);
  EXPECT_EQ(square(high, 4), middle.pixels);
}

// Without the mean, stripes of one pixel would alias into other stripes or plain black.
TEST(CentreSquare, MeansTheAreaWhenItShrinks) {
  Image stripes = plain(64, 64, 0, 0, 0);
  for (size_t i = 0; i < stripes.pixels.size(); i += 6)
    std::fill_n(stripes.pixels.begin() + static_cast<ptrdiff_t>(i), 3, 200);
  EXPECT_EQ(square(stripes, 32), plain(32, 32, 100, 100, 100).pixels);
  EXPECT_EQ(square(stripes, 8), plain(8, 8, 100, 100, 100).pixels);
  const Image three{.width = 3, .height = 3, .pixels = {0, 0, 0,  60, 0,  0, 120, 0, 0, 0, 30, 0, 0, 30,
                                                        0, 0, 30, 0,  90, 0, 0,   0, 0, 9, 0,  0, 9}};
  EXPECT_EQ(square(three, 1), (Pixels{30, 10, 2}));
  EXPECT_EQ(square(three, 2)[0], 13);  // one and a half pixels in each direction: 60 / 2 / 2.25
}

TEST(CentreSquare, IsBilinearWhenItGrows) {
  const Image two{.width = 2, .height = 1, .pixels = {0, 0, 0, 100, 100, 100}};
  EXPECT_EQ(square(two, 2), plain(2, 2, 0, 0, 0).pixels);  // the left pixel: a square of 1 x 1
  const Image four{.width = 2, .height = 2, .pixels = {0, 0, 0, 100, 0, 0, 0, 0, 0, 100, 0, 0}};
  const Pixels grown = square(four, 4);
  for (size_t x = 0; x < 4; ++x) EXPECT_EQ(grown[3 * x], (std::array{0, 25, 75, 100})[x]);
}

TEST(CentreSquare, OfAMirroredImageIsMirrored) {
  for (const auto& [width, height, size] : {std::array<int64_t, 3>{50, 30, 16}, {31, 41, 8}, {10, 10, 24}}) {
    const Pixels there = square(mirrored(slope(width, height)), size);
    const Image back = mirrored({.width = size, .height = size, .pixels = square(slope(width, height), size)});
    for (size_t i = 0; i < there.size(); ++i) EXPECT_LE(std::abs(there[i] - back.pixels[i]), 1) << i;
  }
}

}  // namespace
}  // namespace axonn
