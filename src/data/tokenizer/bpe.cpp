#include "data/tokenizer/bpe.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "axonn/core/error.hpp"
#include "data/tokenizer/unicode/code_points.hpp"

namespace axonn {
namespace {

constexpr size_t kShort = 48;  // symbols up to which looking at all pairs is quicker than a heap
constexpr size_t kLeastText = 2048, kMostKnown = 8192, kBytesPerKnown = 32;  // for remembered words
constexpr std::string_view kSpace = "\u2581";

// Whether a merge joins what ends without kSpace to what begins with it.
bool crosses_a_space(const BpeRules& rules, size_t tokens) {
  std::vector<std::string_view> bytes(tokens);
  for (const auto& [piece, token] : rules.pieces) bytes[static_cast<size_t>(token)] = piece;
  return std::ranges::any_of(rules.merges, [&](const Merge& merge) {
    const auto left = bytes[static_cast<size_t>(merge.left)], right = bytes[static_cast<size_t>(merge.right)];
    return !left.ends_with(kSpace) && right.starts_with(kSpace);
  });
}

// kSpaces, and all before the next.
size_t first_part(std::string_view word) {
  size_t at = 0;
  while (word.substr(at).starts_with(kSpace)) at += kSpace.size();
  return std::min(word.find(kSpace, at), word.size());
}

size_t num_tokens(const BpeRules& rules) {
  int32_t most = rules.unknown;
  for (const auto& piece : rules.pieces) most = std::max(most, piece.second);
  for (const Merge& merge : rules.merges) most = std::max({most, merge.left, merge.right, merge.token});
  return static_cast<size_t>(most) + 1;
}

uint64_t heap_key(uint32_t rank, size_t place) { return uint64_t{rank} << 32 | place; }

}  // namespace

std::vector<Merge> merges_of_ranks(const std::vector<std::pair<std::string, int32_t>>& pieces,
                                   const std::vector<uint32_t>& ranks) {
  const PieceTable table(pieces);
  std::vector<Merge> merges;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view bytes = pieces[i].first;
    for (size_t cut = 1; cut < bytes.size(); ++cut) {
      const int32_t left = table.find(bytes.substr(0, cut));
      const int32_t right = left < 0 ? -1 : table.find(bytes.substr(cut));
      if (right >= 0) merges.push_back({left, right, pieces[i].second, ranks[i]});
    }
  }
  return merges;
}

Bpe::Work::Work(size_t text_bytes) {
  if (text_bytes >= kLeastText) known_.resize(std::min(std::bit_ceil(text_bytes / kBytesPerKnown), kMostKnown));
}

Bpe::Bpe(const BpeRules& rules)
    : pieces_(rules.pieces),
      merges_(rules.merges),
      whole_(num_tokens(rules), rules.ignores_merges),
      byte_tokens_(rules.byte_tokens),
      unknown_(rules.unknown),
      of_bytes_(rules.of_bytes),
      fuses_unknown_(rules.fuses_unknown),
      cuts_at_spaces_(!of_bytes_ && pieces_.find(kSpace) >= 0 && !crosses_a_space(rules, whole_.size())) {
  for (size_t byte = 0; byte < first_symbols_.size(); ++byte) {
    const auto letter = static_cast<char>(static_cast<unsigned char>(byte));
    first_symbols_[byte] = pieces_.find(std::string_view(&letter, 1));
  }
  if (rules.ignores_merges) return;
  Work work(0);
  for (const auto& [bytes, token] : rules.pieces) {
    merge(bytes, work);
    whole_[static_cast<size_t>(token)] = work.symbols_ == std::vector{token};
  }
}

void Bpe::encode(std::string_view word, Work& work, std::vector<int32_t>& tokens) const {
  if (!cuts_at_spaces_) return encode_part(word, work, tokens);
  while (!word.empty()) {
    const size_t length = first_part(word);
    encode_part(word.substr(0, length), work, tokens);
    word.remove_prefix(length);
  }
}

void Bpe::encode_part(std::string_view part, Work& work, std::vector<int32_t>& tokens) const {
  const uint64_t hash = word_hash(part);
  const size_t begin = tokens.size();
  const bool remembers = !work.known_.empty() && part.size() <= Merged::kNever;
  Work::Known* const known = remembers ? &work.known_[hash & (work.known_.size() - 1)] : nullptr;
  if (known != nullptr && known->hash == hash && part == std::string_view(known->word, known->size)) {
    if (known->count == 1) return tokens.push_back(tokens[known->begin]);
    tokens.resize(begin + known->count);
    std::copy_n(tokens.begin() + static_cast<ptrdiff_t>(known->begin), known->count,
                tokens.begin() + static_cast<ptrdiff_t>(begin));
    return;
  }
  if (const int32_t piece = pieces_.find(part, hash); piece >= 0 && whole_[static_cast<size_t>(piece)]) {
    tokens.push_back(piece);
  } else {
    merge(part, work);
    tokens.insert(tokens.end(), work.symbols_.begin(), work.symbols_.end());
  }
  if (known != nullptr)
    *known = {hash, part.data(), static_cast<uint32_t>(part.size()), static_cast<uint32_t>(tokens.size() - begin),
              begin};
}

void Bpe::merge(std::string_view part, Work& work) const {
  work.symbols_.clear();
  append_symbols(part, work.symbols_);
  if (work.symbols_.size() <= kShort)
    merge_short(work.symbols_);
  else
    merge_long(work);
}

void Bpe::append_symbols(std::string_view part, std::vector<int32_t>& symbols) const {
  for (size_t at = 0; at < part.size();) {
    const auto first = static_cast<unsigned char>(part[at]);
    const size_t length = of_bytes_ || first < 0x80 ? 1 : valid_code_point(&part[at]).length;
    const std::string_view character = part.substr(at, length);
    const int32_t token = length == 1 ? first_symbols_[first] : pieces_.find(character);
    if (token >= 0)
      symbols.push_back(token);
    else
      append_unknown(character, symbols);
    at += length;
  }
}

void Bpe::append_unknown(std::string_view character, std::vector<int32_t>& symbols) const {
  const auto token_of = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
  if (std::ranges::all_of(character, [&](char byte) { return token_of(byte) >= 0; })) {
    for (const char byte : character) symbols.push_back(token_of(byte));
  } else if (unknown_ >= 0 && !(fuses_unknown_ && !symbols.empty() && symbols.back() == unknown_)) {
    symbols.push_back(unknown_);
  }
}

void Bpe::merge_short(std::vector<int32_t>& symbols) const {
  std::array<Merged, kShort> merged;  // each symbol with the next
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) merged[i] = merges_.find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    const auto best =
        static_cast<size_t>(std::min_element(merged.begin(), merged.begin() + static_cast<ptrdiff_t>(count - 1),
                                             [](const Merged& a, const Merged& b) { return a.rank < b.rank; }) -
                            merged.begin());
    if (merged[best].rank == Merged::kNever) break;
    symbols[best] = merged[best].token;
    std::copy(&symbols[best] + 2, symbols.data() + count, &symbols[best] + 1);
    if (best + 2 < count) std::copy(&merged[best] + 2, merged.data() + count - 1, &merged[best] + 1);
    --count;
    if (best > 0) merged[best - 1] = merges_.find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merged[best] = merges_.find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

// A heap holds every merge that was possible once. One that no longer is has another rank than its
// place in `merged_`.
void Bpe::merge_long(Work& work) const {
  std::vector<int32_t>& symbols = work.symbols_;
  const size_t count = symbols.size();
  AXONN_CHECK(count < Merged::kNever, "data.tokenizer", "a word of ", count, " characters is too long; at most ",
              Merged::kNever - 1, " may follow each other without a space");
  constexpr int32_t kGone = -1;
  work.merged_.assign(count, {});
  work.next_.resize(count);
  work.before_.resize(count);
  work.heap_.clear();
  const auto look_up = [&](size_t place, size_t next) {
    ++work.num_lookups_;
    Merged& merged = work.merged_[place];
    merged = next < count ? merges_.find(symbols[place], symbols[next]) : Merged{};
    if (merged.rank != Merged::kNever) work.heap_.push_back(heap_key(merged.rank, place));
    return merged.rank != Merged::kNever;
  };
  for (size_t i = 0; i < count; ++i) {
    work.next_[i] = static_cast<uint32_t>(i + 1);
    work.before_[i] = static_cast<uint32_t>(i - (i > 0 ? 1 : 0));
    look_up(i, i + 1);
  }
  std::ranges::make_heap(work.heap_, std::greater{});
  while (!work.heap_.empty()) {
    std::ranges::pop_heap(work.heap_, std::greater{});
    const uint64_t top = work.heap_.back();
    work.heap_.pop_back();
    const size_t place = top & Merged::kNever;
    Merged& merged = work.merged_[place];
    if (merged.rank != top >> 32) continue;
    const size_t right = work.next_[place], after = work.next_[right];
    symbols[place] = merged.token;
    symbols[right] = kGone;
    work.merged_[right] = {};
    work.next_[place] = static_cast<uint32_t>(after);
    if (after < count) work.before_[after] = static_cast<uint32_t>(place);
    if (look_up(place, after)) std::ranges::push_heap(work.heap_, std::greater{});
    if (place > 0 && look_up(work.before_[place], place)) std::ranges::push_heap(work.heap_, std::greater{});
  }
  std::erase(symbols, kGone);
}

}  // namespace axonn
