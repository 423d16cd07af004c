#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus/corpus_files.hpp"
#include "data/packed/byte_source.hpp"

namespace axonn {

// A place between two texts of some files.
struct CorpusPlace {
  size_t file = 0;
  int64_t offset = 0;  // bytes of the file's content, unpacked
  int64_t line = 0;    // lines before it
};

// Some texts that follow each other, as they lie in their files.
struct CorpusChunk {
  struct Part {
    size_t begin = 0, end = 0;  // in `bytes`
    size_t file = 0;
    int64_t line = 0;  // counted from 1; 0: the text is all of the file
  };

  std::string bytes;
  std::vector<Part> parts;
  CorpusPlace after;       // the beginning of the next chunk
  int64_t used_bytes = 0;  // bytes of all files, as they lie on the disk, up to there
};

// Cuts files into chunks of about `chunk_bytes`, or of one text that is longer. The cuts depend on
// nothing else but the files and the place of the beginning. A byte order mark at the beginning of
// a file is left out. UserError for a file that cannot be read, and for a text of 2 GiB.
class ChunkReader {
 public:
  ChunkReader(const CorpusFiles& files, const CorpusPlace& begin, int64_t chunk_bytes);

  std::optional<CorpusChunk> next();  // nullopt: the end

 private:
  void open();
  void close();
  bool read_more(std::string& bytes);
  void add_file(CorpusChunk& chunk);
  void add_lines(CorpusChunk& chunk);
  void add_part(CorpusChunk& chunk, size_t begin, size_t end, int64_t line) const;

  const std::vector<CorpusFile>& files_;
  CorpusPlace place_;
  size_t chunk_bytes_;
  std::unique_ptr<ByteSource> source_;  // files_[place_.file], open from the first read on
  std::string block_;                   // room for the next bytes
  std::string rest_;                    // read, and behind place_
  int64_t bytes_before_ = 0;            // those of all files before place_.file
};

}  // namespace axonn
