#include <algorithm>
#include <array>
#include <thread>

#include <gtest/gtest.h>

#include "axonn/data/images/image_data.hpp"
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

Pixels pixels_of(const ImageSource& source, int64_t index) {
  Pixels pixels(static_cast<size_t>(source.size() * source.size() * 3));
  source.read(index, pixels);
  return pixels;
}

std::string numbered(int64_t i) { return "f" + std::to_string(1000 + i) + ".png"; }

// `whole` good images and `cut` truncated ones.
void fill(const Scratch& scratch, int64_t whole, int64_t cut) {
  const std::string bytes = png_bytes(slope(5, 5));
  for (int64_t i = 0; i < whole + cut; ++i)
    scratch.file(numbered(i), i < whole ? bytes : bytes.substr(0, bytes.size() - 20));
}

TEST(ImageFolder, HasAClassForEachFolder) {
  Scratch scratch;
  scratch.file("d/dog/1.PNG", png_bytes(plain(4, 4, 1, 1, 1)));
  scratch.file("d/cat/deep/2.jpeg", jpeg_bytes(plain(4, 4, 9, 9, 9)));
  scratch.file("d/cat/1.Jpg", jpeg_bytes(plain(4, 4, 5, 5, 5)));
  scratch.file("d/cat/.hidden.png", "no image");
  scratch.file("d/cat/readme.txt", "no image");
  scratch.file("d/notes/readme.txt", "no image");
  scratch.file("d/labels.txt", "no image");
  const auto folder = load_image_folder(scratch / "d", 2);
  EXPECT_EQ(folder->classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(folder->count(), 3);
  Pixels pixels(12);
  EXPECT_EQ(folder->read(0, pixels), 0);
  EXPECT_NEAR(pixels[0], 5, 1);
  EXPECT_EQ(folder->read(1, pixels), 0);
  EXPECT_NEAR(pixels[0], 9, 1);
  EXPECT_EQ(folder->read(2, pixels), 1);
  EXPECT_EQ(pixels, plain(2, 2, 1, 1, 1).pixels);
  EXPECT_EQ(folder->description(), (scratch / "d").string() + ": 3 images of 2 x 2 in 2 classes");
}

TEST(ImageFolder, WithoutFoldersHasNoClasses) {
  Scratch scratch;
  fill(scratch, 2, 0);
  EXPECT_TRUE(load_image_folder(scratch.path(), 4)->classes().empty());
  scratch.file("cat/a.png", png_bytes(slope(4, 4)));
  EXPECT_USER_ERROR(load_image_folder(scratch.path(), 4), "holds images beside the folder 'cat'");
}

TEST(ImageFolder, ResizesTheShorterSideAndTakesTheMiddle) {
  Scratch scratch;
  Image image = plain(96, 32, 10, 20, 30);  // the centre has another colour
  for (int64_t y = 0; y < 32; ++y) std::fill_n(image.pixels.begin() + (y * 96 + 32) * 3, 32 * 3, 200);
  scratch.file("a.png", png_bytes(image));
  scratch.file("b.jpg", jpeg_bytes(image));  // each block of 8 x 8 has one colour
  const auto folder = load_image_folder(scratch.path(), 8);
  for (const int64_t i : {0, 1})
    for (const uint8_t value : pixels_of(*folder, i)) EXPECT_NEAR(value, 200, i * 12) << i;
}

TEST(ImageFolder, SkipsOneBadFileInAHundredAndNamesIt) {
  Scratch scratch;
  fill(scratch, 99, 1);
  testing::internal::CaptureStderr();
  const auto folder = load_image_folder(scratch.path(), 4);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("skipping 1 of 100 image files: " + (scratch / numbered(99)).string() + " is cut short"),
            std::string::npos)
      << log;
  EXPECT_EQ(folder->count(), 99);
  EXPECT_NE(folder->description().find("(1 bad files skipped)"), std::string::npos) << folder->description();
}

TEST(ImageFolder, RefusesMoreThanOneInAHundred) {
  Scratch scratch;
  fill(scratch, 98, 1);
  EXPECT_USER_ERROR(load_image_folder(scratch.path(), 4), "1 of 99 image files are bad, at most 1% are skipped",
                    numbered(98) + " is cut short");
  fill(scratch, 195, 5);
  EXPECT_USER_ERROR(load_image_folder(scratch.path(), 4), "5 of 200", numbered(195), numbered(197), "; and 2 more");
}

TEST(ImageFolder, NamesWhatHoldsNoImages) {
  Scratch scratch;
  EXPECT_USER_ERROR(load_image_folder(scratch / "none", 4), "none is no directory");
  EXPECT_USER_ERROR(load_image_folder(scratch.path(), 4), "holds no .png, .jpg or .jpeg files");
  EXPECT_USER_ERROR(load_image_folder(scratch.file("a.png", png_bytes(slope(4, 4))), 4), "a.png is no directory");
  EXPECT_USER_ERROR(load_image_folder(scratch.path(), 0), "images cannot be of 0 x 0 pixels");
}

TEST(ImageFolder, NamesAFileThatIsCorruptInsideWhenItIsRead) {
  Scratch scratch;
  std::string bytes = png_bytes(slope(40, 30));
  bytes[bytes.size() / 2] ^= 0x55;
  const std::string file = scratch.file("a.png", bytes);
  const auto folder = load_image_folder(scratch.path(), 4);
  EXPECT_USER_ERROR(pixels_of(*folder, 0), file + " is a corrupt PNG");
  std::filesystem::remove(file);
  EXPECT_USER_ERROR(pixels_of(*folder, 0), "cannot read " + file);
}

TEST(ImageFolder, OneLineSaysWhatIsReadAndLeftOut) {
  Scratch scratch;
  scratch.file("d/cat/a.png", png_bytes(slope(4, 4)));
  scratch.file("d/cat/b.webp", "RIFF1234WEBP");
  scratch.file("d/dog/.hidden.png", "no image");
  scratch.file("d/labels.txt", "no image");
  std::filesystem::create_directories(scratch / "d/bird");
  std::filesystem::create_symlink("gone.png", scratch / "d/cat/c.png");
  std::filesystem::create_symlink("c.png", scratch / "d/cat/d.png");
  std::filesystem::create_symlink("self.png", scratch / "d/self.png");
  scratch.file("elsewhere/e.png", png_bytes(slope(4, 4)));
  std::filesystem::create_symlink("../elsewhere", scratch / "d/else");
  testing::internal::CaptureStderr();
  const auto folder = load_image_folder(scratch / "d", 4);
  const std::string bytes = std::to_string(2 * std::filesystem::file_size(scratch / "d/cat/a.png"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[info] " + (scratch / "d").string() + ": read 2 files, " + bytes +
                " B; left out 8: folder without images bird, dog; not .png, .jpg or .jpeg cat/b.webp, labels.txt; "
                "link to nothing cat/c.png, cat/d.png; hidden dog/.hidden.png; link to itself self.png\n");
  EXPECT_EQ(folder->classes(), (std::vector<std::string>{"cat", "else"}));
}

TEST(ImageFolder, SaysWhatItsBadFilesSeemToBe) {
  Scratch scratch;
  for (const auto& [content, words] :
       {std::pair<const char*, const char*>{"GIF89a", "it seems to be GIF image"},
        {"version https://git-lfs.github.com/spec/v1\n", "it seems to be git-lfs pointer; git lfs pull fetches"},
        {"<html>404</html>", "it seems to be HTML page; fetch the file again"}})
    EXPECT_USER_ERROR(
        load_image_folder(scratch.file("d/a.png", content).substr(0, scratch.path().native().size() + 2), 4),
        "a.png is neither a PNG nor a JPEG file, ", words);
}

TEST(ImageFolder, ClassesMayHaveAnyNames) {
  Scratch scratch;
  scratch.file("caf\xe9/a.png", png_bytes(slope(4, 4)));
  scratch.file("two\nlines/b\xff.png", png_bytes(plain(4, 4, 1, 2, 3)));
  const auto folder = load_image_folder(scratch.path(), 4);
  EXPECT_EQ(folder->classes(), (std::vector<std::string>{"caf\xe9", "two\nlines"}));
  EXPECT_EQ(pixels_of(*folder, 1), plain(4, 4, 1, 2, 3).pixels);
}

// A block of a disk that was lost is zeros. libjpeg decodes it without a word.
TEST(ImageFolder, NamesAJpegWithAHoleOnce) {
  Scratch scratch;
  Image image = slope(160, 120);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] ^= static_cast<uint8_t>(i * i % 61);
  const std::string whole = jpeg_bytes(image);
  for (size_t at = 700; at + 1500 < whole.size(); at += 1009) {
    std::string hole = whole;
    const std::string file = scratch.file("a.jpg", hole.replace(at, 512, 512, '\0'));
    const auto folder = load_image_folder(scratch.path(), 4);
    testing::internal::CaptureStderr();
    std::string error;
    try {
      pixels_of(*folder, 0), pixels_of(*folder, 0);
    } catch (const UserError& corrupt) {
      error = corrupt.sentence();
    }
    const std::string printed = testing::internal::GetCapturedStderr();
    if (error.empty()) {
      EXPECT_EQ(printed.find(file + " may be damaged: it has "), std::string("[error] ").size())
          << at << " " << printed;
      EXPECT_EQ(std::ranges::count(printed, '\n'), 1) << printed;
    } else {
      EXPECT_EQ(error.find(file + " is a corrupt JPEG"), 0U) << error;
    }
  }
  scratch.file("a.jpg", whole);
  testing::internal::CaptureStderr();
  pixels_of(*load_image_folder(scratch.path(), 4), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("damaged"), std::string::npos);
}

TEST(ImageFolder, KnowsItsContentByBothEndsOfEachFile) {
  Scratch scratch;
  fill(scratch, 3, 0);
  const auto before = load_image_folder(scratch.path(), 4);
  std::string bytes = png_bytes(slope(5, 5));
  scratch.file(numbered(1), bytes.replace(bytes.size() - 14, 1, "!"));
  const auto after = load_image_folder(scratch.path(), 4);
  EXPECT_EQ(after->fingerprint(), before->fingerprint());
  EXPECT_NE(after->content(), before->content());
  std::filesystem::rename(scratch / numbered(1), scratch / "a.png");
  EXPECT_NE(load_image_folder(scratch.path(), 4)->content(), after->content());  // another order
}

TEST(ImageFolder, IsKnownAgainByNamesAndLengths) {
  Scratch scratch;
  fill(scratch, 3, 0);
  const uint64_t before = load_image_folder(scratch.path(), 4)->fingerprint();
  EXPECT_EQ(load_image_folder(scratch.path(), 4)->fingerprint(), before);
  EXPECT_NE(load_image_folder(scratch.path(), 5)->fingerprint(), before);
  std::filesystem::rename(scratch / numbered(1), scratch / "a.png");
  EXPECT_NE(load_image_folder(scratch.path(), 4)->fingerprint(), before);
  std::filesystem::rename(scratch / "a.png", scratch / numbered(1));
  EXPECT_EQ(load_image_folder(scratch.path(), 4)->fingerprint(), before);
  scratch.file(numbered(1), png_bytes(slope(50, 50)));
  EXPECT_NE(load_image_folder(scratch.path(), 4)->fingerprint(), before);
}

TEST(ImageFolder, MayBeReadByFourThreads) {
  Scratch scratch;
  for (int64_t i = 0; i < 12; ++i)
    // The first bytes decide the format.
    scratch.file(numbered(i), i % 2 ? png_bytes(slope(20 + i, 30)) : jpeg_bytes(slope(20 + i, 30)));
  std::string corrupt = jpeg_bytes(slope(40, 30));
  scratch.file("zz.jpg", corrupt.replace(corrupt.size() - 60, 2, "\xff\xd9"));
  const auto folder = load_image_folder(scratch.path(), 16);
  std::vector<Pixels> expected;
  for (int64_t i = 0; i < 12; ++i) expected.push_back(pixels_of(*folder, i));
  std::array<int, 4> different{}, errors{};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t n = 0; n < 200; ++n) {
        const size_t i = (n * (t + 1) + t) % 13;
        try {
          const Pixels pixels = pixels_of(*folder, static_cast<int64_t>(i));
          different[t] += i == 12 || pixels != expected[i];
        } catch (const UserError&) {
          errors[t] += i == 12;
        }
      }
    });
  for (auto& thread : threads) thread.join();
  for (size_t t = 0; t < 4; ++t) {
    EXPECT_EQ(different[t], 0) << t;
    EXPECT_GE(errors[t], 15) << t;
  }
}

}  // namespace
}  // namespace axonn
