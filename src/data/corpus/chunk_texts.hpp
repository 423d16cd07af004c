#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/data/corpus/tokenize_corpus.hpp"
#include "data/corpus/chunk_reader.hpp"
#include "data/corpus/corpus_files.hpp"

namespace axonn {

struct TextRules {
  std::string key = "text";  // the key of the text in lines of JSON
  BadLines bad_lines = BadLines::error;
  bool any_bytes = false;  // files of text need not be UTF-8
};

// Finds beside texts.
struct ChunkNotes {
  int64_t replaced = 0;               // parts that were not UTF-8, each now U+FFFD
  int64_t skipped = 0;                // bad lines
  std::vector<std::string> warnings;  // the first few
};

inline constexpr size_t kMostWarnings = 3;

// Calls use(text) with each text of a chunk, in order. Lines of white space are no texts. UserError
// for a bad line, with file and number, unless they are skipped. Any number of threads may call it.
ChunkNotes for_each_text(const CorpusChunk& chunk, const std::vector<CorpusFile>& files, const TextRules& rules,
                         const std::function<void(std::string_view)>& use);

}  // namespace axonn
