// Texts, lines of JSON and packed files that are damaged are read, or refused by a UserError.
#include "axonn/core/log.hpp"
#include "data/corpus/chunk_reader.hpp"
#include "data/corpus/chunk_texts.hpp"
#include "data/corpus/packed_texts.hpp"
#include "support/fuzz.hpp"
#include "support/scratch.hpp"

namespace axonn {
namespace {

TEST(CorpusFuzz, TextsAreReadOrRefused) {
  log::configure({.level = log::Level::off});
  const test::Scratch scratch;
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
  log::configure({});
  EXPECT_GT(good, 100U);
  EXPECT_GT(bad, 100U);
  EXPECT_GT(texts, 100U);
}

}  // namespace
}  // namespace axonn
