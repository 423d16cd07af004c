#include "axonn/data/images/image_data.hpp"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Scratch;

constexpr size_t kRecord = 3073;

// An image with ascending red, descending green, and constant blue.
std::string record(int label) {
  std::string bytes(kRecord, '\x07');
  bytes[0] = static_cast<char>(label);
  for (size_t i = 0; i < 1024; ++i) {
    bytes[1 + i] = static_cast<char>(i % 256);
    bytes[1 + 1024 + i] = static_cast<char>(255 - i % 256);
  }
  return bytes;
}

TEST(Cifar10, TurnsPlanesIntoPixelsFileAfterFile) {
  Scratch scratch;
  scratch.file("d/data_batch_2.bin", record(9));
  scratch.file("d/data_batch_1.bin", record(3) + record(4));
  scratch.file("d/test_batch.bin", record(5));
  const auto data = load_cifar10(scratch / "d", false);
  ASSERT_EQ(data->count(), 3);
  std::vector<uint8_t> pixels(3072);
  EXPECT_EQ(data->read(0, pixels), 3);
  EXPECT_EQ(data->read(1, pixels), 4);
  EXPECT_EQ(data->read(2, pixels), 9);
  EXPECT_EQ(pixels[3 * 200], 200);     // red, pixel 200
  EXPECT_EQ(pixels[3 * 200 + 1], 55);  // green
  EXPECT_EQ(pixels[3 * 200 + 2], 7);   // blue
  EXPECT_EQ(data->classes()[9], "truck");
  EXPECT_EQ(load_cifar10(scratch / "d", true)->count(), 1);
  EXPECT_NE(load_cifar10(scratch / "d", true)->fingerprint(), data->fingerprint());
}

TEST(Cifar10, NamesFilesThatAreCutShortOrOfAnotherKind) {
  Scratch scratch;
  const std::string cut = scratch.file("cut/data_batch_1.bin", record(1).substr(0, 3000));
  EXPECT_USER_ERROR(load_cifar10(scratch / "cut", false), cut + " has 3000 bytes, no multiple of the 3073 of a record");
  const std::string odd = scratch.file("odd/data_batch_1.bin", record(1) + record(77));
  EXPECT_USER_ERROR(load_cifar10(scratch / "odd", false), odd + ": record 1 is of class 77, CIFAR-10 has 0 to 9");
  scratch.file("empty/readme", "");
  EXPECT_USER_ERROR(load_cifar10(scratch / "empty", false), "holds no data_batch*.bin");
  EXPECT_USER_ERROR(load_cifar10(scratch / "none", false), "is no directory");
}

TEST(Shapes, AreTheSameImagesAgainAndOfEveryClass) {
  const auto one = make_shapes(16, 200, 1), again = make_shapes(16, 200, 1), other = make_shapes(16, 200, 2);
  std::vector<uint8_t> a(16 * 16 * 3), b(a.size()), c(a.size());
  std::set<int64_t> classes;
  int different = 0;
  for (int64_t i = 0; i < one->count(); ++i) {
    classes.insert(one->read(i, a));
    EXPECT_EQ(again->read(i, b), one->read(i, a));
    EXPECT_EQ(a, b);
    other->read(i, c);
    different += a != c;
    const auto [darkest, brightest] = std::ranges::minmax(a);
    EXPECT_GT(brightest - darkest, 40) << "image " << i << " shows nothing";
  }
  EXPECT_EQ(classes.size(), 4u);
  EXPECT_EQ(different, 200);
  EXPECT_NE(one->fingerprint(), other->fingerprint());
}

// Compares the area of a disc with the sum of covered pixels.
TEST(Shapes, HaveEdgesOfOnePixel) {
  const auto shapes = make_shapes(64, 400, 3);
  std::vector<uint8_t> pixels(64 * 64 * 3);
  for (int64_t i = 0; i < shapes->count(); ++i) {
    if (shapes->read(i, pixels) != 0) continue;
    const double ground = pixels[0];
    double top = ground;  // maximum of red
    for (size_t at = 0; at < pixels.size(); at += 3) top = std::max<double>(top, pixels[at]);
    double covered = 0, left = 64, right = 0;
    for (int64_t row = 0; row < 64; ++row)
      for (int64_t column = 0; column < 64; ++column) {
        const double cover = (pixels[static_cast<size_t>(3 * (row * 64 + column))] - ground) / (top - ground);
        covered += cover;
        if (cover > 0.5) left = std::min<double>(left, column), right = std::max<double>(right, column + 1);
      }
    const double radius = (right - left) / 2;
    EXPECT_NEAR(covered / (M_PI * radius * radius), 1, 0.1) << "image " << i;
  }
}

TEST(ImageDraws, CoverAllImagesAndMirrorHalfOfThem) {
  std::set<int64_t> indices;
  int mirrored = 0;
  for (uint64_t number = 0; number < 2000; ++number) {
    const ImageDraw draw = draw_image(number, 1, 100, true);
    ASSERT_GE(draw.index, 0);
    ASSERT_LT(draw.index, 100);
    indices.insert(draw.index);
    mirrored += draw.mirrored;
    EXPECT_FALSE(draw_image(number, 1, 100, false).mirrored);
  }
  EXPECT_EQ(indices.size(), 100u);
  EXPECT_NEAR(mirrored, 1000, 100);
}

}  // namespace
}  // namespace axonn
