#include "data/corpus/chunk_reader.hpp"

#include "axonn/core/log.hpp"
#include "data/corpus/chunk_texts.hpp"
#include "data/corpus/packed_texts.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

constexpr int64_t kChunk = 1 << 16;

using Texts = std::vector<std::string>;

class Chunks : public testing::Test {
 protected:
  Chunks() { log::configure({.level = log::Level::off}); }
  ~Chunks() override { log::configure({}); }

  Texts read(const std::vector<std::string>& inputs, const TextRules& rules = {}) {
    const CorpusFiles files = find_corpus_files(inputs);
    ChunkReader reader(files, {}, kChunk);
    Texts texts;
    chunks_ = 0;
    notes_ = {};
    while (const auto chunk = reader.next()) {
      ++chunks_;
      const ChunkNotes notes =
          for_each_text(*chunk, files.files, rules, [&](std::string_view text) { texts.emplace_back(text); });
      notes_.replaced += notes.replaced;
      notes_.skipped += notes.skipped;
      notes_.warnings.insert(notes_.warnings.end(), notes.warnings.begin(), notes.warnings.end());
    }
    return texts;
  }
  Texts read_text(const std::string& bytes, const TextRules& rules = {}) {
    return read({scratch.file("a.txt", bytes)}, rules);
  }
  Texts read_lines(const std::string& bytes, const TextRules& rules = {}) {
    return read({scratch.file("a.jsonl", bytes)}, rules);
  }

  test::Scratch scratch;
  ChunkNotes notes_;
  int chunks_ = 0;
};

std::string line_of(const std::string& text) { return R"({"id": 1, "text": ")" + text + "\"}\n"; }

TEST_F(Chunks, AFileIsATextAndALineIsOne) {
  EXPECT_EQ(read_text("one\r\ntwo\n"), (Texts{"one\r\ntwo\n"}));
  EXPECT_EQ(read_lines(line_of("one") + line_of("two\\n\\u0000") + line_of("")), (Texts{"one", {"two\n\0", 5}, ""}));
  EXPECT_EQ(read_lines(R"({"text": "no end of line"})"), (Texts{"no end of line"}));
  EXPECT_EQ(read_lines("\r\n" + line_of("a") + " \t\n\n" + R"({"text": "b"})" + "\r\n"), (Texts{"a", "b"}));
  EXPECT_EQ(read_text("word"), (Texts{"word"}));
}

TEST_F(Chunks, PackedFilesAreReadAsWhatIsInThem) {
  const std::string lines = line_of("one") + line_of("two");
  const std::vector<std::string> inputs = {
      scratch.file("1.txt.gz", test::gzipped("plain")), scratch.file("2.jsonl.gz", test::gzipped(lines)),
      scratch.file("3.jsonl.zst", test::zstded(lines)), scratch.file("4", test::zstded("plain"))};
  EXPECT_EQ(read(inputs), (Texts{"plain", "one", "two", "one", "two", "plain"}));
}

TEST_F(Chunks, AFolderIsReadByTheRuleOfDocuments) {
  scratch.file("d/b/2.jsonl", line_of("two"));
  scratch.file("d/1.txt", "one");
  scratch.file("d/3.txt.gz", test::gzipped("three"));
  scratch.file("d/4.png.gz", test::gzipped("\x89PNG\r\n\x1a\n"));
  scratch.file("d/5.tar.xz", std::string("\xfd") + "7zXZ" + std::string(10, '\0'));
  scratch.file("d/.hidden", "no");
  scratch.file("d/empty.txt", "");
  scratch.file("d/z.html", "<!doctype html><p>");
  scratch.file("d/page.txt.gz", test::gzipped("<!doctype html><p>"));
  EXPECT_EQ(read({scratch / "d"}), (Texts{"one", "three", "two", "<!doctype html><p>"}));
  const CorpusFiles files = find_corpus_files({scratch / "d"});
  EXPECT_EQ(files.read.left_out_text(),
            "left out 5: hidden .hidden; PNG image 4.png.gz; xz 5.tar.xz; empty empty.txt; HTML page page.txt.gz");
}

TEST_F(Chunks, OtherInputsAreRefused) {
  EXPECT_USER_ERROR(read({scratch / "none"}), "cannot read", "none");
  EXPECT_USER_ERROR(read({scratch.file("a.xz", std::string("\xfd") + "7zXZ" + std::string(10, '\0'))}),
                    "a.xz is no text, it seems to be xz", "unxz");
  scratch.file("d/.hidden", "no");
  EXPECT_USER_ERROR(read({scratch / "d"}), "there is no text in", "hidden", "give files of text");
  EXPECT_USER_ERROR(read({"/dev/null"}), "/dev/null is no file and no folder");
}

TEST_F(Chunks, AByteOrderMarkIsLeftOut) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(read_text(mark + "a" + mark), (Texts{"a" + mark}));
  EXPECT_EQ(read_lines(mark + line_of("a") + line_of("b")), (Texts{"a", "b"}));
  EXPECT_EQ(read_text(mark), (Texts{""}));
  EXPECT_EQ(read({scratch.file("g.gz", test::gzipped(mark + "a"))}), (Texts{"a"}));
}

TEST_F(Chunks, WhatIsNotUtf8IsReplacedAndCounted) {
  EXPECT_EQ(read_text("caf\xe9 \xf0\x9f\x98 end\xff"), (Texts{"caf\uFFFD \uFFFD end\uFFFD"}));
  EXPECT_EQ(notes_.replaced, 3);
  EXPECT_EQ(read_text("caf\xe9", {.any_bytes = true}), (Texts{"caf\xe9"}));
  EXPECT_EQ(notes_.replaced, 0);
  EXPECT_EQ(read_lines(line_of("caf\xe9"), {.any_bytes = true}), (Texts{"caf\uFFFD"}));
  EXPECT_EQ(notes_.replaced, 1);
}

TEST_F(Chunks, NulBytesStayWithAWarning) {
  const std::string text("text\0\0", 6);
  EXPECT_EQ(read_text(text), (Texts{text}));
  ASSERT_EQ(notes_.warnings.size(), 1U);
  EXPECT_NE(notes_.warnings[0].find("a.txt has 2 NUL bytes, the first at byte 4"), std::string::npos);
}

TEST_F(Chunks, BadLinesAreNamedOrSkipped) {
  struct Case {
    std::string line, reason;
  };
  const Case cases[] = {{"{\"text\": \"a", "an object of JSON"},
                        {"[1, 2]", "an object of JSON"},
                        {"nonsense", "an object of JSON"},
                        {std::string(100'000, '['), "an object of JSON"},
                        {R"({"text": "a"} {"text": "b"})", "an object of JSON"},
                        {std::string("{\"text\": \"a\0\"}", 13), "an object of JSON"},
                        {R"({"text": "\ud800"})", "an object of JSON"},
                        {R"({"txt": "a"})", "the key 'text'; did you mean 'txt'?"},
                        {R"({"text": 5})", "'text' must be a text"},
                        {R"({"text": null})", "'text' must be a text"}};
  for (const Case& one : cases) {
    const std::string lines = line_of("a") + "\n" + one.line + "\n" + line_of("b");
    EXPECT_USER_ERROR(read_lines(lines), "a.jsonl line 3 has no text", one.reason, "--on-bad-line skip");
    EXPECT_EQ(read_lines(lines, {.bad_lines = BadLines::skip}), (Texts{"a", "b"})) << one.line.substr(0, 50);
    EXPECT_EQ(notes_.skipped, 1);
    ASSERT_EQ(notes_.warnings.size(), 1U);
    EXPECT_NE(notes_.warnings[0].find("line 3"), std::string::npos);
  }
  EXPECT_EQ(read_lines(R"({"content": "a", "text": "b"})", {.key = "content"}), (Texts{"a"}));
}

TEST_F(Chunks, LongTextsAreNotCut) {
  const std::string long_word(3'000'000, 'a');
  EXPECT_TRUE(read_text(long_word) == Texts{long_word});
  EXPECT_TRUE(read_lines(line_of("x") + line_of(long_word) + line_of("y")) == (Texts{"x", long_word, "y"}));
  EXPECT_EQ(chunks_, 2);
}

TEST_F(Chunks, EveryPlaceBetweenChunksIsABeginning) {
  std::string lines;
  for (int i = 0; lines.size() < 500'000; ++i) lines += line_of(std::to_string(i) + std::string(1000, 'x')) + "\n";
  const std::vector<std::string> inputs = {scratch.file("1.jsonl", lines), scratch.file("2.txt", "text"),
                                           scratch.file("3.jsonl.gz", test::gzipped(lines)),
                                           scratch.file("4.txt", std::string(150'000, 'y'))};
  const CorpusFiles files = find_corpus_files(inputs);
  std::vector<CorpusChunk> chunks;
  ChunkReader reader(files, {}, kChunk);
  while (auto chunk = reader.next()) chunks.push_back(std::move(*chunk));
  ASSERT_GT(chunks.size(), 8U);
  EXPECT_EQ(chunks.back().used_bytes, files.bytes());
  for (size_t i = 0; i + 1 < chunks.size(); ++i) {
    EXPECT_LT(chunks[i].used_bytes, chunks[i + 1].used_bytes + 1);
    ChunkReader again(files, chunks[i].after, kChunk);
    const auto next = again.next();
    ASSERT_TRUE(next);
    EXPECT_TRUE(next->bytes == chunks[i + 1].bytes) << i;
    ASSERT_EQ(next->parts.size(), chunks[i + 1].parts.size());
    EXPECT_EQ(next->parts.back().line, chunks[i + 1].parts.back().line);
    EXPECT_EQ(next->after.offset, chunks[i + 1].after.offset);
  }
  EXPECT_FALSE(ChunkReader(files, chunks.back().after, kChunk).next());
}

}  // namespace
}  // namespace axonn
