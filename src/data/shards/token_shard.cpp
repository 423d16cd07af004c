#include "axonn/data/shards/token_shard.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"
#include "data/shards/layouts.hpp"
#include "data/shards/mapped_file.hpp"

namespace axonn {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian and used as they lie in memory");

namespace fs = std::filesystem;
constexpr const char* kWhere = "data.shards";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

fs::path with_suffix(fs::path path, const char* suffix) { return path += suffix; }

// The name that both files of Megatron begin with.
fs::path prefix_of(const fs::path& path) {
  const bool whole = path.extension() == ".bin" || path.extension() == ".idx";
  return whole ? fs::path(path).replace_extension() : path;
}

bool begins_as_llmc(const MappedFile& file) {
  if (file.bytes().size() < 4) return false;
  const auto magic = file.at<uint32_t>(0);
  return magic == llmc::kMagic16 || magic == llmc::kMagic32 || magic == llmc::kMagicOfQuestions;
}

// Calls use(pointer) with the tokens as numbers of the file's type.
template <typename Use>
void with_numbers(TokenType type, const std::byte* first, const Use& use) {
  switch (type) {
    case TokenType::uint16:
      return use(reinterpret_cast<const uint16_t*>(first));
    case TokenType::int32:
      return use(reinterpret_cast<const int32_t*>(first));
    case TokenType::uint32:
      return use(reinterpret_cast<const uint32_t*>(first));
  }
}

}  // namespace

TokenType token_type(ShardFormat format, int64_t vocabulary) {
  constexpr int64_t kMegatrons = 65500, kMost16 = 65536, kMost32 = int64_t{1} << 31;
  AXONN_CHECK(vocabulary >= 1 && vocabulary <= kMost32, kWhere, "a vocabulary has from 1 to 2^31 tokens, got ",
              vocabulary);
  if (format == ShardFormat::megatron) return vocabulary < kMegatrons ? TokenType::uint16 : TokenType::int32;
  AXONN_CHECK(format == ShardFormat::llmc || vocabulary <= kMost16, kWhere, "nanoGPT's files hold ids below ", kMost16,
              ", and the vocabulary has ", vocabulary, " tokens; use the format megatron");
  return vocabulary <= kMost16 ? TokenType::uint16 : TokenType::uint32;
}

class TokenShard::Files {
 public:
  explicit Files(const fs::path& tokens) : tokens_(tokens) {}
  Files(const fs::path& tokens, const fs::path& index) : tokens_(tokens), index_(std::in_place, index) {}

  const MappedFile& tokens() const { return tokens_; }
  const MappedFile& index() const { return *index_; }

  // Of Megatron's index. `sequences` is their number, which has been checked.
  int64_t length(int64_t sequence) const {
    return index().at<int32_t>(megatron::kHeaderBytes + megatron::kLengthBytes * static_cast<size_t>(sequence));
  }
  int64_t offset(int64_t sequence, int64_t sequences) const {
    return index().at<int64_t>(megatron::kHeaderBytes + megatron::kLengthBytes * static_cast<size_t>(sequences) +
                               megatron::kOffsetBytes * static_cast<size_t>(sequence));
  }
  int64_t first_sequence(int64_t document, int64_t sequences) const {
    return index().at<int64_t>(megatron::kHeaderBytes +
                               (megatron::kLengthBytes + megatron::kOffsetBytes) * static_cast<size_t>(sequences) +
                               megatron::kDocumentBytes * static_cast<size_t>(document));
  }

 private:
  MappedFile tokens_;
  std::optional<MappedFile> index_;
};

TokenShard TokenShard::open(const fs::path& path, std::optional<ShardFormat> format) {
  const fs::path prefix = prefix_of(path), tokens = with_suffix(prefix, ".bin"), index = with_suffix(prefix, ".idx");
  const bool pair = path.extension() == ".idx" || (is_file(index) && (path == tokens || !is_file(path)));
  if (format == ShardFormat::megatron || (!format && pair)) {
    const auto check = [&](const fs::path& needed) {
      AXONN_CHECK(is_file(needed), kWhere, "Megatron's shard ", shown_name(prefix.native()), " needs ",
                  shown_name(needed.native()), ", which is not there; copy both files of the pair");
    };
    check(index);
    check(tokens);
    return {std::make_shared<const Files>(tokens, index), ShardFormat::megatron};
  }
  const auto files = std::make_shared<const Files>(is_file(path) || !is_file(tokens) ? path : tokens);
  if (!format) {
    AXONN_CHECK(begins_as_llmc(files->tokens()), kWhere, files->tokens().name(),
                " is no shard that is known by its content: Megatron's needs its .idx beside it, llm.c's begins "
                "with its magic number, and nanoGPT's must be named as such");
    format = ShardFormat::llmc;
  }
  return {files, *format};
}

TokenShard::TokenShard(std::shared_ptr<const Files> files, ShardFormat format)
    : files_(std::move(files)), format_(format), name_(files_->tokens().name()) {
  if (format == ShardFormat::megatron)
    open_megatron();
  else if (format == ShardFormat::llmc)
    open_llmc();
  else
    open_nanogpt();
}

void TokenShard::open_megatron() {
  const MappedFile &index = files_->index(), &tokens = files_->tokens();
  const size_t size = index.bytes().size();
  AXONN_CHECK(
      size >= megatron::kHeaderBytes && std::memcmp(index.bytes().data(), megatron::kMagic, megatron::kMagicBytes) == 0,
      kWhere, index.name(), " is no index of Megatron's: it must begin with MMIDIDX and a header of ",
      megatron::kHeaderBytes, " bytes; the program that wrote it may not have ended");
  const auto version = index.at<uint64_t>(megatron::kVersionAt);
  AXONN_CHECK(version == megatron::kVersion, kWhere, index.name(), " has version ", version, ", and only version ",
              megatron::kVersion, " of Megatron's index is read");
  const auto type = index.at<uint8_t>(megatron::kTypeAt);
  AXONN_CHECK(type == megatron::kUint16 || type == megatron::kInt32, kWhere, index.name(), " has tokens of type ",
              int{type}, ", and only 8 (uint16) and 4 (int32) are read; make it again with one of these");
  type_ = type == megatron::kUint16 ? TokenType::uint16 : TokenType::int32;

  const auto sequences = index.at<uint64_t>(megatron::kSequencesAt);
  const auto starts = index.at<uint64_t>(megatron::kDocumentsAt);
  constexpr size_t kEach = megatron::kLengthBytes + megatron::kOffsetBytes;
  const size_t body = size - megatron::kHeaderBytes;
  const bool fit = sequences <= body / kEach && starts >= 1 && starts <= body / megatron::kDocumentBytes;
  const size_t needed = fit ? kEach * sequences + megatron::kDocumentBytes * starts : 0;
  AXONN_CHECK(fit && (needed == body || needed + sequences == body), kWhere, index.name(), " has ", size,
              " bytes, which do not fit the ", sequences, " sequences and ", starts,
              " starts of documents of its header: it is cut short or damaged; copy it again");
  sequences_ = static_cast<int64_t>(sequences);
  documents_ = static_cast<int64_t>(starts) - 1;
  first_ = tokens.bytes().data();

  const auto has = static_cast<int64_t>(tokens.bytes().size());
  const int64_t last = sequences_ - 1, width = bytes_of(type_);
  const int64_t first_byte = sequences_ > 0 ? files_->offset(0, sequences_) : 0;
  const int64_t last_byte = sequences_ > 0 ? files_->offset(last, sequences_) : 0;
  const int64_t last_bytes = sequences_ > 0 ? files_->length(last) * width : 0;
  AXONN_CHECK(first_byte == 0 && last_byte >= 0 && last_bytes >= 0 && last_byte == has - last_bytes, kWhere, name_,
              " has ", has, " bytes of tokens, and by ", index.name(), " the last sequence has ", last_bytes,
              " from byte ", last_byte, ": one of them is cut short, or they do not belong together; copy both again");
  AXONN_CHECK(
      files_->first_sequence(0, sequences_) == 0 && files_->first_sequence(documents_, sequences_) == sequences_,
      kWhere, index.name(), " has documents that do not reach from the first of its ", sequences_,
      " sequences to the last: it is damaged; copy it again");
  tokens_ = has / width;
}

void TokenShard::open_llmc() {
  const MappedFile& file = files_->tokens();
  const size_t size = file.bytes().size();
  AXONN_CHECK(size >= llmc::kHeaderBytes && begins_as_llmc(file), kWhere, name_,
              " is no shard of llm.c's: it must begin with its magic number, ", llmc::kMagic16, " or ", llmc::kMagic32,
              ", and a header of ", llmc::kHeaderBytes, " bytes");
  const auto magic = file.at<uint32_t>(0), version = file.at<uint32_t>(4), count = file.at<uint32_t>(8);
  AXONN_CHECK(magic != llmc::kMagicOfQuestions, kWhere, name_,
              " holds llm.c's questions, not a text; give it to gpt eval --choices");
  const bool narrow = magic == llmc::kMagic16;
  const uint32_t known = narrow ? llmc::kVersion16 : llmc::kVersion32;
  AXONN_CHECK(version == known, kWhere, name_, " has version ", version, ", and only version ", known,
              " of llm.c's shards with magic number ", magic, " is read");
  type_ = narrow ? TokenType::uint16 : TokenType::uint32;
  tokens_ = count;
  const size_t needed = llmc::kHeaderBytes + count * static_cast<size_t>(bytes_of(type_));
  AXONN_CHECK(size == needed, kWhere, name_, " has ", size, " bytes, and ", count, " tokens of its header need ",
              needed, ": it is cut short or damaged; copy it again");
  first_ = file.bytes().data() + llmc::kHeaderBytes;
}

void TokenShard::open_nanogpt() {
  const MappedFile& file = files_->tokens();
  const auto size = static_cast<int64_t>(file.bytes().size());
  AXONN_CHECK(!begins_as_llmc(file), kWhere, name_, " begins as llm.c's files do; do not name it as nanoGPT's");
  AXONN_CHECK(size % 2 == 0, kWhere, name_, " has ", size,
              " bytes, and nanoGPT's files have two per token: it is cut short; copy it again");
  tokens_ = size / 2;
  first_ = file.bytes().data();
}

void TokenShard::check_range(int64_t begin, size_t count) const {
  AXONN_CHECK(begin >= 0 && begin <= tokens_ && std::cmp_less_equal(count, tokens_ - begin), kWhere, name_, " has ",
              tokens_, " tokens; there are no ", count, " from number ", begin, " on");
}

void TokenShard::read(int64_t begin, std::span<int32_t> into) const {
  check_range(begin, into.size());
  with_numbers(type_, first_, [&](const auto* numbers) {
    for (size_t i = 0; i < into.size(); ++i) into[i] = static_cast<int32_t>(numbers[static_cast<size_t>(begin) + i]);
  });
}

void TokenShard::read(int64_t begin, std::span<int64_t> into) const {
  check_range(begin, into.size());
  with_numbers(type_, first_, [&](const auto* numbers) {
    for (size_t i = 0; i < into.size(); ++i) into[i] = int64_t{numbers[static_cast<size_t>(begin) + i]};
  });
}

TokenShard::Range TokenShard::document(int64_t number) const {
  AXONN_CHECK(number >= 0 && number < documents_, kWhere, name_, " has ", documents_,
              " documents, counted from 0; there is no number ", number);
  const int64_t width = bytes_of(type_);
  const int64_t from = files_->first_sequence(number, sequences_), to = files_->first_sequence(number + 1, sequences_);
  const bool ordered = from >= 0 && from <= to && to <= sequences_;
  const int64_t offset = !ordered || from == sequences_ ? tokens_ * width : files_->offset(from, sequences_);
  Range range{.begin = offset / width, .end = offset / width};
  if (ordered && from < to) range.end = files_->offset(to - 1, sequences_) / width + files_->length(to - 1);
  AXONN_CHECK(ordered && offset >= 0 && offset % width == 0 && range.begin <= range.end && range.end <= tokens_, kWhere,
              files_->index().name(), " has document ", number, " at sequences ", from, " to ", to, ", tokens ",
              range.begin, " to ", range.end, ", and there are ", sequences_, " and ", tokens_,
              ": it is damaged; copy it again");
  return range;
}

void TokenShard::check_vocabulary(int64_t vocabulary, Range range) const {
  constexpr int64_t kBlock = 1 << 16;
  check_range(range.begin, static_cast<size_t>(range.end - range.begin));
  with_numbers(type_, first_, [&](const auto* numbers) {
    const auto is_bad = [&](auto id) { return std::cmp_less(id, 0) || std::cmp_greater_equal(id, vocabulary); };
    for (int64_t begin = range.begin; begin < range.end; begin += kBlock) {
      const auto* const from = numbers + begin;
      const auto* const to = numbers + std::min(range.end, begin + kBlock);
      const auto [least, most] = std::minmax_element(from, to);
      if (!is_bad(*least) && !is_bad(*most)) continue;
      const auto* const bad = std::find_if(from, to, is_bad);
      throw UserError(
          kWhere, detail::concatenate(name_, " has id ", *bad, " as token ", bad - numbers, ", and the vocabulary has ",
                                      vocabulary, "; give the tokenizer that it was made with"));
    }
  });
}

void TokenShard::check_documents() const {
  if (format_ != ShardFormat::megatron) return;
  const auto check = [&](bool good, const char* what, int64_t number) {
    AXONN_CHECK(good, kWhere, files_->index().name(), " is damaged at ", what, " ", number, ", or does not belong to ",
                name_, "; copy both again");
  };
  int64_t offset = 0;
  for (int64_t sequence = 0; sequence < sequences_; ++sequence) {
    const int64_t length = files_->length(sequence);
    check(length >= 0 && files_->offset(sequence, sequences_) == offset, "sequence", sequence);
    offset += length * bytes_of(type_);
  }
  check(offset == tokens_ * bytes_of(type_), "sequence", sequences_);
  for (int64_t number = 0; number < documents_; ++number) document(number);
}

}  // namespace axonn
