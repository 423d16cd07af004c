#include "data/packed/byte_source.hpp"

#include <random>

#include "data/corpus/packed_texts.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

std::string read_all(const std::string& path, size_t step) {
  const auto source = open_source(path);
  std::string all, some(step, '\0');
  for (size_t count; (count = source->read(some)) > 0;) all += some.substr(0, count);
  EXPECT_EQ(source->read(some), 0U);
  EXPECT_EQ(source->used_bytes(), std::ssize(test::read(path)));
  return all;
}

std::string long_text() {
  std::mt19937 random(3);
  std::string text;
  while (text.size() < 500'000) text += "word " + std::to_string(random() % 1000) + (random() % 9 == 0 ? "\n" : " ");
  return text;
}

class ByteSources : public testing::Test {
 protected:
  void expect_bytes(const std::string& bytes, const std::string& expected) const {
    const std::string path = scratch.file("file", bytes);
    for (const size_t step : {size_t{1} << 20, size_t{4096}, size_t{7}}) EXPECT_TRUE(read_all(path, step) == expected);
  }

  test::Scratch scratch;
};

TEST_F(ByteSources, PlainAndPackedFilesHaveTheSameBytes) {
  for (const std::string& text : {std::string("a"), std::string("some text\n"), long_text()}) {
    expect_bytes(text, text);
    expect_bytes(test::gzipped(text), text);
    expect_bytes(test::zstded(text), text);
  }
  expect_bytes("", "");
  expect_bytes(test::gzipped(""), "");
  expect_bytes(test::zstded(""), "");
  expect_bytes("\x1f", "\x1f");
}

TEST_F(ByteSources, PartsFollowEachOther) {
  const std::string text = long_text();
  expect_bytes(test::gzipped(text) + test::gzipped("") + test::gzipped("end"), text + "end");
  expect_bytes(test::zstded(text) + test::zstded("") + test::zstded("end"), text + "end");
  expect_bytes(test::gzipped(text) + std::string(100'000, '\0'), text);  // as tapes fill blocks
}

TEST_F(ByteSources, TornAndDamagedFilesAreRefused) {
  const std::string text = long_text();
  const auto read = [&](const std::string& bytes) { read_all(scratch.file("file", bytes), 1 << 16); };
  for (const std::string& packed : {test::gzipped(text), test::zstded(text)}) {
    for (const size_t size : {packed.size() - 1, packed.size() / 2, size_t{5}})
      EXPECT_USER_ERROR(read(packed.substr(0, size)), "file, packed by", "is cut short at byte", "copy it again");
    std::string other = packed;
    other[packed.size() / 2] = static_cast<char>(other[packed.size() / 2] ^ 0x55);
    other.replace(packed.size() / 2 + 10, 8, "damaged!");
    EXPECT_USER_ERROR(read(other), "is damaged", "copy it again");
    EXPECT_USER_ERROR(read(packed + "more"), "other bytes behind its end");
  }
  EXPECT_USER_ERROR(read(test::gzipped(text) + std::string(9, '\0') + "x"), "other bytes behind its end");
  EXPECT_USER_ERROR(open_source(scratch / "none"), "cannot read", "none", "No such file");
}

// A frame of zstd with a window of 2 to the power `window`. It has a block of 128 KiB, not packed,
// per letter.
std::string frame(int window, const std::string& letters) {
  constexpr size_t kBlock = size_t{1} << 17;
  std::string bytes = {'\x28', '\xb5', '\x2f', '\xfd', '\0', static_cast<char>((window - 10) << 3)};
  for (size_t i = 0; i < letters.size(); ++i) {
    const size_t head = kBlock << 3 | (i + 1 == letters.size() ? 1 : 0);
    for (const int shift : {0, 8, 16}) bytes += static_cast<char>(head >> shift & 0xff);
    bytes += std::string(kBlock, letters[i]);
  }
  return bytes;
}

TEST_F(ByteSources, WindowsAreAsLargeAsTheFileCanNeed) {
  const auto bytes_of = [&](const std::string& packed) { return read_all(scratch.file("file", packed), 1 << 20); };
  EXPECT_EQ(bytes_of(frame(27, "a")).size(), size_t{1} << 17);
  EXPECT_EQ(bytes_of(frame(28, std::string(40, 'a'))).size(), size_t{40} << 17);
  for (const int window : {28, 31}) EXPECT_USER_ERROR(bytes_of(frame(window, "a")), "file", "memory", "without --long");
}

}  // namespace
}  // namespace axonn
