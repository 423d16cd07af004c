#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "axonn/data/folder/files_read.hpp"

namespace axonn {

// A file of texts.
struct CorpusFile {
  std::filesystem::path path;
  int64_t bytes = 0;    // on the disk
  int64_t changed = 0;  // nanoseconds since 1970
  bool lines = false;   // each line is an object of JSON with a text; otherwise all of it is one text
};

struct CorpusFiles {
  std::vector<CorpusFile> files;
  FilesRead read;

  int64_t bytes() const { return read.bytes; }
};

// The files of all inputs, in their order, those of a folder by the rule of docs/data.md. Files
// that gzip or zstd has packed count as what is in them. UserError for an input that does not exist
// or is no text, and if there is no file at all. Warns of files that seem to be no plain text.
CorpusFiles find_corpus_files(const std::vector<std::string>& inputs);

}  // namespace axonn
