#include "data/corpus/chunk_reader.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"

namespace axonn {
namespace {

constexpr size_t kReadBytes = size_t{1} << 18;
constexpr size_t kMostTextBytes = (size_t{1} << 31) - 1;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

ChunkReader::ChunkReader(const CorpusFiles& files, const CorpusPlace& begin, int64_t chunk_bytes)
    : files_(files.files), place_(begin), chunk_bytes_(static_cast<size_t>(chunk_bytes)), block_(kReadBytes, '\0') {
  for (size_t file = 0; file < std::min(begin.file, files_.size()); ++file) bytes_before_ += files_[file].bytes;
}

std::optional<CorpusChunk> ChunkReader::next() {
  CorpusChunk chunk;
  while (chunk.bytes.size() < chunk_bytes_ && place_.file < files_.size()) {
    if (!source_) open();
    if (files_[place_.file].lines)
      add_lines(chunk);
    else
      add_file(chunk);
  }
  if (chunk.parts.empty()) return std::nullopt;
  chunk.after = place_;
  chunk.used_bytes = bytes_before_ + (source_ ? source_->used_bytes() : 0);
  return chunk;
}

void ChunkReader::open() {
  source_ = open_source(files_[place_.file].path);
  rest_.clear();
  std::string skipped;
  for (int64_t left = place_.offset; left > 0; left -= std::ssize(skipped)) {
    skipped.resize(static_cast<size_t>(std::min<int64_t>(left, kReadBytes)));
    skipped.resize(source_->read(skipped));
    AXONN_CHECK(!skipped.empty(), "data.corpus", shown_name(files_[place_.file].path.native()),
                " has become shorter; start again without --resume");
  }
}

void ChunkReader::close() {
  bytes_before_ += files_[place_.file].bytes;
  source_.reset();
  rest_.clear();
  place_ = {.file = place_.file + 1, .offset = 0, .line = 0};
}

// Whether there were further bytes.
bool ChunkReader::read_more(std::string& bytes) {
  const size_t count = source_->read(block_);
  bytes.append(block_, 0, count);
  return count > 0;
}

void ChunkReader::add_file(CorpusChunk& chunk) {
  const size_t begin = chunk.bytes.size();
  do {
    AXONN_CHECK(chunk.bytes.size() - begin <= kMostTextBytes, "data.corpus",
                shown_name(files_[place_.file].path.native()),
                " is a text of more than 2 GiB; divide it, for example into lines of JSON, a document each");
  } while (read_more(chunk.bytes));
  add_part(chunk, begin, chunk.bytes.size(), 0);
  close();
}

void ChunkReader::add_lines(CorpusChunk& chunk) {
  size_t begin = chunk.bytes.size(), seen = begin;
  chunk.bytes += std::exchange(rest_, {});
  bool more = true;
  for (;;) {
    const size_t end = chunk.bytes.find('\n', seen);
    if (end != std::string::npos) {
      place_.offset += static_cast<int64_t>(end + 1 - begin);
      add_part(chunk, begin, end, ++place_.line);
      begin = seen = end + 1;
      if (begin < chunk_bytes_) continue;
      rest_ = chunk.bytes.substr(begin);
      chunk.bytes.resize(begin);
      return;
    }
    if (!more) break;
    seen = chunk.bytes.size();
    AXONN_CHECK(seen - begin <= kMostTextBytes, "data.corpus", shown_name(files_[place_.file].path.native()), " line ",
                place_.line + 1, " has more than 2 GiB; divide it");
    more = read_more(chunk.bytes);
  }
  if (chunk.bytes.size() > begin) add_part(chunk, begin, chunk.bytes.size(), place_.line + 1);
  close();
}

void ChunkReader::add_part(CorpusChunk& chunk, size_t begin, size_t end, int64_t line) const {
  const bool first = line <= 1 && std::string_view(chunk.bytes).substr(begin, end - begin).starts_with(kByteOrderMark);
  chunk.parts.push_back({begin + (first ? kByteOrderMark.size() : 0), end, place_.file, line});
}

}  // namespace axonn
