#include "axonn/data/images/image_sheet.hpp"

#include <array>
#include <limits>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Scratch;
using Pixels = std::vector<uint8_t>;

Pixels pixel(const Image& image, int64_t x, int64_t y) {
  const auto at = image.pixels.begin() + (y * image.width + x) * 3;
  return {at, at + 3};
}

// All values of image i are i, on a scale of 255 steps over [-1, 1].
at::Tensor numbered(std::vector<int64_t> shape) {
  at::Tensor images = at::empty(shape, at::kFloat);
  for (int64_t i = 0; i < shape[0]; ++i) images[i].fill_(static_cast<double>(i) / 127.5 - 1);
  return images;
}

TEST(ImageSheet, LaysImagesRowByRowWithWhiteLinesBetween) {
  const Image sheet = make_sheet(numbered({5, 4, 6, 3}));  // 3 columns, 2 rows
  ASSERT_EQ(sheet.width, 3 * 6 + 2 * 2);
  ASSERT_EQ(sheet.height, 2 * 4 + 2);
  const Pixels white(3, 255);
  for (int64_t y = 0; y < sheet.height; ++y)
    for (int64_t x = 0; x < sheet.width; ++x) {
      const int64_t column = x / 8, row = y / 6, number = row * 3 + column;
      const bool inside = x % 8 < 6 && y % 6 < 4 && number < 5;
      EXPECT_EQ(pixel(sheet, x, y), inside ? Pixels(3, static_cast<uint8_t>(number)) : white) << x << " " << y;
    }
}

TEST(ImageSheet, IsNearASquareUnlessColumnsAreGiven) {
  for (const auto& [count, columns, rows] :
       {std::array<int64_t, 3>{1, 1, 1}, {2, 2, 1}, {4, 2, 2}, {63, 8, 8}, {64, 8, 8}, {65, 9, 8}}) {
    const Image sheet = make_sheet(at::zeros({count, 1, 1, 3}));
    EXPECT_EQ(sheet.width, 3 * columns - 2) << count;
    EXPECT_EQ(sheet.height, 3 * rows - 2) << count;
  }
  EXPECT_EQ(make_sheet(at::zeros({6, 1, 1, 3}), 6).height, 1);
  EXPECT_EQ(make_sheet(at::zeros({6, 1, 1, 3}), 1).width, 1);
}

TEST(ImageSheet, RoundsToNearestAndClamps) {
  const auto byte = [](double value) { return int{make_sheet(at::full({1, 1, 1, 3}, value, at::kDouble)).pixels[0]}; };
  EXPECT_EQ(byte(-1), 0);
  EXPECT_EQ(byte(1), 255);
  EXPECT_EQ(byte(-3), 0);
  EXPECT_EQ(byte(1e9), 255);
  EXPECT_EQ(byte(99.4 / 127.5 - 1), 99);
  EXPECT_EQ(byte(99.6 / 127.5 - 1), 100);
}

TEST(ImageSheet, RefusesWhatIsNoImage) {
  at::Tensor images = numbered({4, 2, 2, 3});
  images[2][1][1][0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_USER_ERROR(make_sheet(images), "image 2 of 4 holds values that are not finite");
  EXPECT_USER_ERROR(make_sheet(at::zeros({4, 2, 2})), "(count, height, width, 3), got (4, 2, 2)");
  EXPECT_USER_ERROR(make_sheet(at::zeros({4, 3, 2, 2})), "got (4, 3, 2, 2)");
  EXPECT_USER_ERROR(make_sheet(at::zeros({0, 2, 2, 3})), "got (0, 2, 2, 3)");
  EXPECT_USER_ERROR(make_sheet(at::zeros({4, 2, 2, 3}), -1), "cannot have -1 columns");
  EXPECT_USER_ERROR(save_strip("a.png", at::zeros({4, 2, 2, 3})),
                    "(count, moments, height, width, 3), got (4, 2, 2, 3)");
}

TEST(ImageSheet, IsSavedAsPng) {
  Scratch scratch;
  const std::string file = (scratch / "sheet.png").string();
  const at::Tensor images = numbered({6, 5, 4, 3});
  save_sheet(file, images, 2);
  EXPECT_EQ(read_image(file).pixels, make_sheet(images, 2).pixels);
  save_sheet(file, images.to(at::kDouble).permute({0, 2, 1, 3}));  // overwrites it, from a view
  EXPECT_EQ(read_image(file).width, 3 * 5 + 2 * 2);
  EXPECT_USER_ERROR(save_sheet((scratch / "none/sheet.png").string(), images), "none does not exist");
}

TEST(ImageSheet, OfATrajectoryHasARowForEachImage) {
  Scratch scratch;
  const std::string file = (scratch / "strip.png").string();
  save_strip(file, numbered({2 * 3, 4, 4, 3}).view({2, 3, 4, 4, 3}));
  const Image strip = read_image(file);
  EXPECT_EQ(strip.width, 3 * 4 + 2 * 2);
  EXPECT_EQ(strip.height, 2 * 4 + 2);
  EXPECT_EQ(pixel(strip, 12, 0), Pixels(3, 2));  // the last moment of image 0
  EXPECT_EQ(pixel(strip, 0, 6), Pixels(3, 3));   // the first moment of image 1
}

}  // namespace
}  // namespace axonn
