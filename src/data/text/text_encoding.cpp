#include "data/text/text_encoding.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "data/corpus/ordered_work.hpp"
#include "data/tokenizer/document_tokens.hpp"

namespace axonn {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 20;
constexpr size_t kPieceTokens = size_t{1} << 30;  // a document of ShardWriter has less than twice as many

struct Encoded {
  std::vector<int32_t> tokens;
  int64_t bytes = 0;  // length of its text
};

std::vector<TextPart> blocks_of(int64_t bytes, int64_t block) {
  std::vector<TextPart> blocks;
  for (int64_t begin = 0; begin < bytes; begin += block) blocks.push_back({begin, std::min(bytes, begin + block)});
  return blocks;
}

// With the line break behind each file, or without, and then without those that are empty.
std::vector<TextPart> files_of(const TextFiles& texts, bool with_breaks) {
  std::vector<TextPart> files;
  for (const TextFiles::File& file : texts.files()) {
    const int64_t end = std::min(texts.bytes(), file.begin + file.bytes + (with_breaks ? 1 : 0));
    if (end > file.begin) files.push_back({file.begin, end});
  }
  return files;
}

}  // namespace

TextEncoding::TextEncoding(const TextFiles& texts, const Tokenizer& tokenizer, DocumentEnds ends)
    : texts_(texts), tokenizer_(tokenizer), documents_(ends == DocumentEnds::tokens && tokenizer.end_token()) {
  const bool of_files = tokenizer.kind() == TokenizerKind::files;
  if (tokenizer.kind() == TokenizerKind::chars || documents_)
    parts_ = files_of(texts, !documents_);
  else
    parts_ = blocks_of(texts.bytes(), of_files ? texts.bytes() : kBlockBytes);
}

std::vector<int32_t> TextEncoding::tokens(const TextPart& part) const {
  const std::string text = texts_.text(part.begin, part.end);
  return documents_ ? document_tokens(tokenizer_, text, {}) : tokenizer_.encode(text);
}

// Share i is that of rank i * ranks / shares, rounded down.
std::span<const TextPart> TextEncoding::share(int rank, int ranks) const {
  const int64_t shares = std::min(ranks, kMostShares), mine = (rank * shares + ranks - 1) / ranks;
  if (mine * ranks / shares != rank) return {};
  const auto first_of = [&](int64_t which) {
    return std::ranges::lower_bound(parts_, texts_.bytes() * which / shares, {}, &TextPart::begin);
  };
  return {first_of(mine), first_of(mine + 1)};
}

ShardWriter::State TextEncoding::write(std::span<const TextPart> parts, const std::filesystem::path& prefix,
                                       int threads, Progress& progress) const {
  ShardWriter writer(prefix, ShardFormat::megatron, tokenizer_.vocabulary_size());
  auto next = parts.begin();
  work_in_order(
      threads, [&] { return next == parts.end() || progress.stop ? std::nullopt : std::optional(*next++); },
      [&](const TextPart& part) { return Encoded{.tokens = tokens(part), .bytes = part.end - part.begin}; },
      [&](const Encoded& encoded) {
        append_in_pieces(writer, encoded.tokens, kPieceTokens);
        progress.bytes += encoded.bytes;
      });
  writer.finish();
  return writer.state();
}

void append_in_pieces(ShardWriter& writer, std::span<const int32_t> tokens, size_t most) {
  do {
    const std::span<const int32_t> piece = tokens.first(std::min(most, tokens.size()));
    writer.append(piece);
    tokens = tokens.subspan(piece.size());
  } while (!tokens.empty());
}

}  // namespace axonn
