#include "axonn/data/shards/shard_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"
#include "data/shards/layouts.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "data.shards";
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr int64_t kMostTokens31 = std::numeric_limits<int32_t>::max();

fs::path with_suffix(fs::path path, const char* suffix) { return path += suffix; }

template <typename Number>
void put(std::vector<std::byte>& bytes, Number number) {
  const size_t begin = bytes.size();
  bytes.resize(begin + sizeof number);
  std::memcpy(&bytes[begin], &number, sizeof number);
}

// A file that is written from a place on, through a buffer.
class TailFile {
 public:
  // Keeps `kept` bytes of the file, which must have them; 0: makes a new one.
  TailFile(const fs::path& path, int64_t kept) : path_(path), file_(path), place_(kept) {
    std::error_code error;
    const auto size = static_cast<int64_t>(fs::file_size(path, error));
    AXONN_CHECK(!error && size >= kept, kWhere, shown_name(path.native()), " has ", error ? 0 : size, " bytes, and ",
                kept, " were written before: the disk has lost a part; remove it and start again");
    if (size > kept) fs::resize_file(path, static_cast<uintmax_t>(kept));
  }

  template <typename Number>
  void append(Number number) {
    put(buffer_, number);
    if (buffer_.size() >= kBufferBytes) flush();
  }
  template <typename Number>
  void append_as(std::span<const int32_t> numbers) {
    while (!numbers.empty()) {
      const size_t count = std::min(numbers.size(), kBufferBytes / sizeof(Number)), begin = buffer_.size();
      buffer_.resize(begin + count * sizeof(Number));
      for (size_t i = 0; i < count; ++i) {
        const auto number = static_cast<Number>(numbers[i]);
        std::memcpy(&buffer_[begin + i * sizeof number], &number, sizeof number);
      }
      numbers = numbers.subspan(count);
      if (buffer_.size() >= kBufferBytes) flush();
    }
  }
  void flush() {
    file_.write_at(place_, buffer_);
    place_ += std::ssize(buffer_);
    buffer_.clear();
  }
  void sync() {
    flush();
    file_.sync();
  }
  void write_header(const std::vector<std::byte>& header) { file_.write_at(0, header); }
  void finish() {
    flush();
    file_.finish();
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  disk::SharedFile file_;
  int64_t place_;
  std::vector<std::byte> buffer_;
};

int64_t header_bytes(ShardFormat format) { return format == ShardFormat::llmc ? int64_t{llmc::kHeaderBytes} : 0; }

// Calls use(numbers) for the numbers of a part of a file, in order.
template <typename Number, typename Use>
void for_each_block(const fs::path& path, int64_t from, int64_t count, const Use& use) {
  const disk::OpenFile file(path);
  std::vector<Number> block;
  for (int64_t done = 0; done < count; done += std::ssize(block)) {
    block.resize(static_cast<size_t>(std::min<int64_t>(count - done, kBufferBytes / sizeof(Number))));
    file.read_at(from + done * static_cast<int64_t>(sizeof(Number)), std::as_writable_bytes(std::span(block)));
    use(std::span<const Number>(block));
  }
}

void update(disk::Hash64& hash, std::span<const int32_t> tokens) { hash.update(std::as_bytes(tokens)); }

}  // namespace

struct ShardWriter::Parts {
  Parts(const fs::path& prefix, ShardFormat the_format, int64_t the_vocabulary, const State& from)
      : format(the_format), type(token_type(the_format, the_vocabulary)), vocabulary(the_vocabulary), state(from) {
    const bool begun = from.documents > 0;
    tokens.emplace(with_suffix(prefix, ".bin"), begun ? header_bytes(format) + from.tokens * bytes_of(type) : 0);
    if (format == ShardFormat::megatron) {
      const int64_t kept = megatron::kHeaderBytes + int64_t{megatron::kLengthBytes} * from.documents;
      index.emplace(with_suffix(prefix, ".idx"), begun ? kept : 0);
    }
    if (begun)
      take_up();
    else
      begin();
  }

  // Leaves room for the headers.
  void begin() {
    const auto room = [](TailFile& file, size_t bytes) {
      for (size_t i = 0; i < bytes; ++i) file.append(std::byte{0});
    };
    room(*tokens, static_cast<size_t>(header_bytes(format)));
    if (index) room(*index, megatron::kHeaderBytes);
  }

  // Hashes the tokens that were written before.
  void take_up() {
    const auto add = [&](auto numbers) {
      const std::vector<int32_t> wide(numbers.begin(), numbers.end());
      update(hash, wide);
    };
    if (type == TokenType::uint16)
      for_each_block<uint16_t>(tokens->path(), header_bytes(format), state.tokens, add);
    else
      for_each_block<int32_t>(tokens->path(), header_bytes(format), state.tokens, add);
    AXONN_CHECK(hash.digest() == state.hash, kWhere, shown_name(tokens->path().native()),
                " is not what was written before: it has been changed; remove it and start again");
  }

  void write_index() {
    const fs::path path = index->path();
    index->flush();
    int64_t offset = 0;
    for_each_block<int32_t>(path, megatron::kHeaderBytes, state.documents, [&](std::span<const int32_t> lengths) {
      for (const int32_t length : lengths) {
        index->append(offset);
        offset += length * bytes_of(type);
      }
    });
    for (int64_t document = 0; document <= state.documents; ++document) index->append(document);
    index->flush();
    std::vector<std::byte> header;
    for (size_t i = 0; i < megatron::kMagicBytes; ++i) put(header, megatron::kMagic[i]);
    put(header, megatron::kVersion);
    put(header, megatron::number_of(type));
    put(header, static_cast<uint64_t>(state.documents));
    put(header, static_cast<uint64_t>(state.documents) + 1);
    index->write_header(header);
  }

  void write_llmc_header() {
    const bool narrow = type == TokenType::uint16;
    std::vector<std::byte> header;
    put(header, narrow ? llmc::kMagic16 : llmc::kMagic32);
    put(header, narrow ? llmc::kVersion16 : llmc::kVersion32);
    put(header, static_cast<uint32_t>(state.tokens));
    tokens->write_header(header);
  }

  ShardFormat format;
  TokenType type;
  int64_t vocabulary;
  State state;  // its hash is that of the last state()
  disk::Hash64 hash;
  std::optional<TailFile> tokens, index;
};

ShardWriter::ShardWriter(const fs::path& prefix, ShardFormat format, int64_t vocabulary)
    : ShardWriter(prefix, format, vocabulary, State()) {}

ShardWriter::ShardWriter(const fs::path& prefix, ShardFormat format, int64_t vocabulary, const State& from)
    : parts_(std::make_unique<Parts>(prefix, format, vocabulary, from)) {}

ShardWriter::~ShardWriter() = default;

void ShardWriter::append(std::span<const int32_t> document) {
  Parts& to = *parts_;
  const int64_t count = std::ssize(document);
  AXONN_CHECK(count <= kMostTokens31, kWhere, "a document of ", count, " tokens is too long; divide it, at most ",
              kMostTokens31, " fit");
  AXONN_CHECK(to.format != ShardFormat::llmc || count <= kMostTokens31 - to.state.tokens, kWhere,
              "a file of llm.c's holds at most ", kMostTokens31, " tokens; use the format megatron");
  for (const int32_t token : document)
    AXONN_CHECK(token >= 0 && token < to.vocabulary, kWhere, "token ", token, " is not in the vocabulary of ",
                to.vocabulary, "; give the vocabulary of its tokenizer");
  if (to.type == TokenType::uint16)
    to.tokens->append_as<uint16_t>(document);
  else
    to.tokens->append_as<int32_t>(document);
  update(to.hash, document);
  if (to.index) to.index->append(static_cast<int32_t>(count));
  ++to.state.documents;
  to.state.tokens += count;
}

ShardWriter::State ShardWriter::state() const {
  State now = parts_->state;
  now.hash = parts_->hash.digest();
  return now;
}

void ShardWriter::sync() {
  parts_->tokens->sync();
  if (parts_->index) parts_->index->sync();
}

void ShardWriter::finish() {
  Parts& to = *parts_;
  to.tokens->flush();
  if (to.format == ShardFormat::llmc) to.write_llmc_header();
  if (to.index) to.write_index();
  to.tokens->finish();
  if (to.index) to.index->finish();
}

}  // namespace axonn
