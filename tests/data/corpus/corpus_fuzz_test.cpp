// Texts, lines of JSON and packed files that are damaged are read, or refused by a UserError.
#include <filesystem>
#include <map>

#include "axonn/core/log.hpp"
#include "axonn/data/corpus/tokenize_corpus.hpp"
#include "data/corpus/chunk_reader.hpp"
#include "data/corpus/chunk_texts.hpp"
#include "data/corpus/packed_texts.hpp"
#include "support/fuzz.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

// The lines of a log are tested elsewhere.
class CorpusFuzz : public testing::Test {
 protected:
  CorpusFuzz() { log::configure({.level = log::Level::off}); }
  ~CorpusFuzz() override { log::configure({}); }

  test::Scratch scratch;
};

TEST_F(CorpusFuzz, TextsAreReadOrRefused) {
  const std::string lines =
      "\xEF\xBB\xBF"
      R"({"text": "caf\u00e9 \ud83d\ude00", "more": [{"a": null}]})"
      "\r\n\n"
      R"({"id": 1, "text": "one\ntwo"})";
  size_t good = 0, bad = 0, texts = 0;
  fuzz::rounds(2000, [&](fuzz::Random& random) {
    std::string bytes = random.one_in(2) ? fuzz::changed(lines, random) : lines;
    const bool packed = random.one_in(2);
    if (packed) bytes = random.one_in(2) ? test::gzipped(bytes) : test::zstded(bytes);
    if (packed && random.one_in(2)) bytes = fuzz::mutated(bytes, random);
    const std::string path = scratch.file(random.one_in(4) ? "a.txt" : "a.jsonl.gz", bytes);
    const bool is_read = fuzz::read([&] {
      const CorpusFiles files = find_corpus_files({path});
      ChunkReader reader(files, {}, 1 << 20);
      const TextRules rules = {.bad_lines = random.one_in(2) ? BadLines::skip : BadLines::error};
      while (const auto chunk = reader.next())
        for_each_text(*chunk, files.files, rules, [&](std::string_view text) {
          EXPECT_FALSE(first_invalid_utf8(text));
          ++texts;
        });
    });
    ++(is_read ? good : bad);
  });
  EXPECT_GT(good, 100U);
  EXPECT_GT(bad, 100U);
  EXPECT_GT(texts, 100U);
}

// The files of a tokenization that was stopped when it had saved its first line.
std::map<std::string, std::string> stopped_files(TokenizeOptions options) {
  struct Stop {};
  int shown = 0;
  options.progress = [&](std::string_view, int64_t, int64_t) {
    if (++shown == 3) throw Stop();  // the begin, the first line, the second
  };
  EXPECT_THROW(tokenize_corpus(options), Stop);
  std::map<std::string, std::string> files;
  for (const char* name : {"job.json", "state.json", "shard.bin", "shard.idx"})
    files[name] = test::read((fs::path(options.out) += ".partial") / name);
  return files;
}

TEST_F(CorpusFuzz, StoppedTokenizationsGoOnOrAreRefused) {
  TokenizeOptions options = {.inputs = {scratch.file("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n")},
                             .out = scratch / "out",
                             .tokenizer = "bytes",
                             .adds_end = false,
                             .workers = 1,
                             .chunk_bytes = 1};
  const std::map<std::string, std::string> files = stopped_files(options);
  for (const auto& [name, content] : files) ASSERT_FALSE(content.empty()) << name;
  options.resume = true;
  size_t good = 0, bad = 0;
  fuzz::rounds(300, [&](fuzz::Random& random) {
    const size_t changed = random.below(files.size() + 1);
    size_t number = 0;
    for (const auto& [name, content] : files)
      scratch.file("out.partial/" + name, number++ == changed ? fuzz::changed(content, random) : content);
    ++(fuzz::read([&] { tokenize_corpus(options); }) ? good : bad);
  });
  EXPECT_GT(good, 30U);
  EXPECT_GT(bad, 30U);
}

}  // namespace
}  // namespace axonn
