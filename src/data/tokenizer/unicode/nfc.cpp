#include "data/tokenizer/unicode/nfc.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "data/tokenizer/unicode/code_points.hpp"
#include "data/tokenizer/unicode/unicode_tables.hpp"

namespace axonn {
namespace {

struct Decomposition {
  char32_t code, first, second;  // second 0: only one character
};

struct ClassRange {
  char32_t begin, end;
  uint8_t combining_class;
};

struct Tables {
  std::vector<Decomposition> by_code, by_parts;
  std::vector<ClassRange> classes;
};

void append_rows(std::vector<Decomposition>& rows, std::span<const uint32_t> numbers) {
  char32_t code = 0;
  for (size_t i = 0; i < numbers.size(); i += 3) {
    code += numbers[i];
    rows.push_back({code, numbers[i + 1], numbers[i + 2]});
  }
}

std::pair<char32_t, char32_t> parts_of(const Decomposition& row) { return {row.first, row.second}; }

Tables make_tables() {
  Tables tables;
  append_rows(tables.by_parts, unicode_tables::kComposed);
  tables.by_code = tables.by_parts;
  append_rows(tables.by_code, unicode_tables::kDecomposed);
  std::ranges::sort(tables.by_code, {}, &Decomposition::code);
  std::ranges::sort(tables.by_parts, {}, parts_of);
  char32_t end = 0;
  for (size_t i = 0; i < unicode_tables::kCombiningClasses.size(); i += 3) {
    const auto* const numbers = &unicode_tables::kCombiningClasses[i];
    const char32_t begin = end + numbers[0];
    end = begin + numbers[1];
    tables.classes.push_back({begin, end, static_cast<uint8_t>(numbers[2])});
  }
  return tables;
}

const Tables& tables() {
  static const Tables kTables = make_tables();
  return kTables;
}

// Hangul's syllables follow from their parts by a formula (section 3.12 of the Unicode Standard).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr char32_t kNumLeads = 19, kNumVowels = 21, kNumTails = 28, kNumSyllables = kNumLeads * kNumVowels * kNumTails;

bool is_among(char32_t code, char32_t first, char32_t count) { return code >= first && code < first + count; }

int combining_class(char32_t code) {
  const auto after = std::ranges::upper_bound(tables().classes, code, {}, &ClassRange::begin);
  if (after == tables().classes.begin()) return 0;
  const ClassRange& range = *std::prev(after);
  return code < range.end ? range.combining_class : 0;
}

void decompose(char32_t code, std::vector<char32_t>& parts) {
  if (is_among(code, kSyllables, kNumSyllables)) {
    const char32_t number = code - kSyllables, tail = number % kNumTails;
    parts.push_back(kLeads + number / (kNumVowels * kNumTails));
    parts.push_back(kVowels + number % (kNumVowels * kNumTails) / kNumTails);
    if (tail != 0) parts.push_back(kTails + tail);
    return;
  }
  const auto found = std::ranges::lower_bound(tables().by_code, code, {}, &Decomposition::code);
  if (found == tables().by_code.end() || found->code != code) {
    parts.push_back(code);
    return;
  }
  decompose(found->first, parts);
  if (found->second != 0) decompose(found->second, parts);
}

// 0: the two are not composed.
char32_t composed(char32_t first, char32_t second) {
  if (is_among(first, kLeads, kNumLeads) && is_among(second, kVowels, kNumVowels))
    return kSyllables + ((first - kLeads) * kNumVowels + second - kVowels) * kNumTails;
  const bool open_syllable = is_among(first, kSyllables, kNumSyllables) && (first - kSyllables) % kNumTails == 0;
  if (open_syllable && is_among(second, kTails + 1, kNumTails - 1)) return first + second - kTails;
  const auto parts = std::pair(first, second);
  const auto found = std::ranges::lower_bound(tables().by_parts, parts, {}, parts_of);
  return found != tables().by_parts.end() && parts_of(*found) == parts ? found->code : 0;
}

// Runs of marks by their classes; marks of one class keep their order.
void reorder(std::vector<char32_t>& parts) {
  const auto is_mark = [](char32_t code) { return combining_class(code) != 0; };
  for (auto at = parts.begin(); at != parts.end();) {
    const auto begin = std::find_if(at, parts.end(), is_mark);
    at = std::find_if_not(begin, parts.end(), is_mark);
    std::stable_sort(begin, at, [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
  }
}

void compose(const std::vector<char32_t>& parts, std::string& out) {
  std::vector<char32_t> made;
  size_t starter = parts.size();  // none yet
  int last = 0;                   // class of the last of `made`
  for (const char32_t code : parts) {
    const int mine = combining_class(code);
    const bool reaches_starter = starter < made.size() && (last < mine || starter + 1 == made.size());
    if (const char32_t one = reaches_starter ? composed(made[starter], code) : 0; one != 0) {
      made[starter] = one;
      continue;
    }
    if (mine == 0) starter = made.size();
    last = mine;
    made.push_back(code);
  }
  for (const char32_t code : made) append_utf8(out, code);
}

void append_nfc(std::string_view text, std::string& out) {
  std::vector<char32_t> parts;
  for (size_t at = 0; at < text.size();) {
    const auto [value, length] = valid_code_point(text.data() + at);
    decompose(value, parts);
    at += length;
  }
  reorder(parts);
  compose(parts, out);
}

}  // namespace

// A stable character begins a part of the text that NFC changes by itself. Only parts with unstable
// characters are looked at.
std::optional<std::string> nfc(std::string_view text) {
  const uint8_t* const classes = code_point_classes();
  std::string out;
  size_t copied = 0, begin = 0;
  const auto is_unstable = [&](size_t at) { return (classes[valid_code_point(&text[at]).value] & kUnstable) != 0; };
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0xCC || !is_unstable(at)) {  // U+0300 begins with CC
      begin = at;
      at += first < 0x80 ? 1 : valid_code_point(&text[at]).length;
      continue;
    }
    while (at < text.size() && is_unstable(at)) at += valid_code_point(&text[at]).length;
    out += text.substr(copied, begin - copied);
    append_nfc(text.substr(begin, at - begin), out);
    copied = begin = at;
  }
  if (copied == 0) return std::nullopt;
  out += text.substr(copied);
  return out == text ? std::nullopt : std::optional(std::move(out));
}

}  // namespace axonn
