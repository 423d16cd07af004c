// Folders and files that nobody meant to be data: they are read, or refused by a UserError; the
// sanitizers see the rest.
#include <sys/stat.h>

#include <filesystem>

#include <gtest/gtest.h>
#include <zlib.h>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/utf8.hpp"
#include "axonn/data/images/image_data.hpp"
#include "axonn/data/text/questions.hpp"
#include "axonn/data/text/text_data.hpp"
#include "data/images/image_samples.hpp"
#include "data/text/question_files.hpp"
#include "support/fuzz.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using fuzz::Random, fuzz::read;
using namespace std::string_literals;

// The lines of a log are tested elsewhere.
class DataFuzz : public testing::Test {
 protected:
  DataFuzz() { log::configure({.level = log::Level::off}); }
  ~DataFuzz() override { log::configure({}); }
};

std::string some_content(Random& random) {
  static const std::vector<std::string> kContents = {"",
                                                     "a",
                                                     "some text\n",
                                                     "caf\xe9",
                                                     "a\0b"s,
                                                     "\x1f\x8b\x08\0abc"s,
                                                     "PK\x03\x04",
                                                     "\xff\xfe"
                                                     "a\0b\0"s,
                                                     "a\0b\0c\0"s,
                                                     "version https://git-lfs.github.com/spec/v1\noid sha256:ab\n",
                                                     "<!doctype html><title>",
                                                     "\x89PNG\r\n\x1a\n",
                                                     "{\"step\": 1}\n",
                                                     "\xef\xbb\xbftext",
                                                     std::string(9000, 'x') + "\0\0"s};
  const std::string& one = kContents[random.below(kContents.size())];
  return random.one_in(3) ? fuzz::mutated(one, random) : one;
}

std::string some_name(Random& random) {
  static const std::vector<std::string> kNames = {
      "a",           "b.txt",       "c.png",         ".hidden",    "caf\xe9", "line\nbreak",          "metrics.jsonl",
      "status.json", "step-000001", "manifest.json", "job-1.lock", "samples", "x0-y0-z0.safetensors", "page.txt",
      "\xff.jpg",    "\x1b[2J"};
  return kNames[random.below(kNames.size())];
}

// A folder of files, folders, pipes and links, which may lead to any of them.
void make_folder(const fs::path& root, Random& random) {
  std::vector<fs::path> folders = {root}, all = {root, root / "none", root.parent_path()};
  for (size_t entries = random.from(0, 12); entries > 0; --entries) {
    const fs::path path = folders[random.below(folders.size())] / some_name(random);
    std::error_code ignored;
    if (fs::exists(fs::symlink_status(path, ignored))) continue;
    switch (random.below(8)) {
      case 0:
      case 1:
        fs::create_directory(path);
        folders.push_back(path);
        break;
      case 2:
      case 3:
        fs::create_symlink(random.one_in(8) ? path.filename() : all[random.below(all.size())], path);
        break;
      case 4:
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
        break;
      default:
        std::ofstream(path, std::ios::binary) << some_content(random);
    }
    all.push_back(path);
  }
}

TEST_F(DataFuzz, FoldersOfTextAreReadOrRefused) {
  const test::Scratch scratch;
  size_t good = 0, bad = 0;
  fuzz::rounds(400, [&](Random& random) {
    const fs::path root = scratch / "d";
    fs::create_directory(root);
    make_folder(root, random);
    std::vector<std::string> paths = {root};
    if (random.one_in(4)) paths.push_back(scratch.file("named", some_content(random)));
    const bool is_read = read([&] {
      const auto kind = random.one_in(2) ? TokenizerKind::bytes : TokenizerKind::chars;
      const TextData data = TextData::load(paths, kind);
      EXPECT_GE(std::ssize(data.tokens()), data.files().files);
      EXPECT_EQ(data.fingerprint(), TextData::load(paths, kind).fingerprint());
    });
    ++(is_read ? good : bad);
    if (random.one_in(4)) read([&] { load_image_folder(root, 4); });
    fs::remove_all(root);
  });
  EXPECT_GT(good, 50U);
  EXPECT_GT(bad, 50U);
}

TEST_F(DataFuzz, QuestionsAreReadOrRefused) {
  const test::Scratch scratch;
  const Tokenizer tokenizer = Tokenizer::bytes();
  const std::string lines = R"({"ctx": "One and", "endings": ["two.", "caf\u00e9"], "label": 1})"
                            "\n"
                            R"({"context": "a", "endings": ["b", "c", "d"], "label": 0, "more": [{}]})"
                            "\n";
  const std::string tokens =
      test::llmc_file({{.context = {1, 2, 3}, .endings = {{.tokens = {4}}, {.tokens = {5, 6}}}, .label = 1},
                       {.context = {7}, .endings = {{.tokens = {8}}, {.tokens = {9}}, {.tokens = {10}}}, .label = 0}});
  size_t good = 0, bad = 0;
  fuzz::rounds(2000, [&](Random& random) {
    // Most of the header of llm.c's file is zeros that nobody reads.
    const std::string file = random.one_in(2) ? fuzz::mutated(lines, random)
                                              : tokens.substr(0, 1024) + fuzz::mutated(tokens.substr(1024), random);
    const bool is_read = read([&] {
      for (const Question& question : read_questions(scratch.file("choices", file), &tokenizer)) {
        EXPECT_LT(question.label, question.endings.size());
        EXPECT_FALSE(question.context.empty());
      }
    });
    ++(is_read ? good : bad);
  });
  EXPECT_GT(good, 20U);
  EXPECT_GT(bad, 20U);
}

std::string number(size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string chunk(const std::string& body) {  // name and data
  return number(body.size() - 4) + body +
         number(::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
}

const std::string kExif = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"s;

std::vector<std::string> some_images() {
  const Image image = test::slope(40, 30);
  std::string png = test::png_bytes(image), jpeg = test::jpeg_bytes(image);
  std::vector<std::string> images = {png, jpeg};
  images.push_back(png.insert(33, chunk("eXIf" + kExif)));  // after IHDR
  images.push_back(jpeg.insert(2,
                               "\xff\xe1\0\x22"
                               "Exif\0\0"s +
                                   kExif));
  images.push_back(test::png_bytes(2, 2, std::vector<uint8_t>(16, 77), {.colour = PNG_COLOR_TYPE_RGBA}));
  images.push_back(
      test::png_bytes(2, 1, std::vector<uint8_t>(8, 9), {.bits = 16, .colour = PNG_COLOR_TYPE_GRAY_ALPHA}));
  images.push_back(test::png_bytes(8, 1, {0b01111010},
                                   {.bits = 1, .colour = PNG_COLOR_TYPE_PALETTE, .palette = {{9, 8, 7}, {1, 2, 3}}}));
  images.push_back(test::jpeg_bytes(16, 16, std::vector<uint8_t>(256, 90), 1));
  images.push_back(test::jpeg_bytes(8, 8, std::vector<uint8_t>(256, 90), 4));
  return images;
}

// Makes the checksums of a PNG's chunks right again, so that what is in them is read.
std::string with_right_checksums(std::string png) {
  for (size_t at = 8; at + 12 <= png.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<unsigned char>(png[at + i]);
    if (length > png.size() - at - 12) break;
    png.replace(at, 12 + length, chunk(png.substr(at + 4, 4 + length)));
    at += 12 + length;
  }
  return png;
}

TEST_F(DataFuzz, ImagesAreReadOrRefused) {
  const test::Scratch scratch;
  const std::vector<std::string> images = some_images();
  const std::string folder = (scratch / "d").string(), file = scratch.file("d/a.png", "");
  size_t good = 0, bad = 0;
  fuzz::rounds(1500, [&](Random& random) {
    std::string bytes = fuzz::mutated(images[random.below(images.size())], random);
    if (bytes.starts_with("\x89PNG") && random.one_in(2)) bytes = with_right_checksums(bytes);
    if (random.one_in(4)) bytes += images.front().substr(images.front().size() - 12);  // the end mark of a PNG
    if (random.one_in(8)) bytes.replace(bytes.size() / 2, 600, std::string(600, '\0'));
    scratch.file("d/a.png", bytes);
    std::vector<uint8_t> pixels(8 * 8 * 3);
    ++(read([&] { load_image_folder(folder, 8)->read(0, pixels); }) ? good : bad);
    read([&] {
      const Image image = read_image(file);
      EXPECT_EQ(std::ssize(image.pixels), image.width * image.height * 3);
    });
  });
  EXPECT_GT(good, 50U);
  EXPECT_GT(bad, 200U);
}

TEST_F(DataFuzz, FilesOfCifar10AreReadOrRefused) {
  const test::Scratch scratch;
  fuzz::rounds(100, [&](Random& random) {
    std::string bytes(random.one_in(4) ? random.below(9000) : 3073 * random.below(3), '\x02');
    if (!bytes.empty() && random.one_in(2)) bytes = fuzz::mutated(bytes, random);
    scratch.file("data_batch_1.bin", bytes);
    std::vector<uint8_t> pixels(32 * 32 * 3);
    read([&] { load_cifar10(scratch.path(), false)->read(0, pixels); });
  });
}

}  // namespace
}  // namespace axonn
