#include "data/tokenizer/splitters.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "data/tokenizer/unicode/code_points.hpp"

namespace axonn {
namespace {

// A text with the classes of its characters. Places are bytes.
class ClassedText {
 public:
  explicit ClassedText(std::string_view text) : text_(text), classes_(code_point_classes()) {}

  size_t size() const { return text_.size(); }
  uint8_t classes(size_t place) const { return classes_[valid_code_point(&text_[place]).value]; }
  size_t after(size_t place) const { return place + valid_code_point(&text_[place]).length; }

  // The end of the run of characters from `place` on that have one of these classes, or none.
  size_t skip(size_t place, uint8_t some) const { return run(place, some, true); }
  size_t skip_others(size_t place, uint8_t none) const { return run(place, none, false); }

  // \s+(?!\S)|\s+ at the beginning, where white space is.
  size_t white() const {
    size_t place = 0, last = 0;
    while (place < size() && (classes(place) & kWhite) != 0) {
      last = place;
      place = after(place);
    }
    return place == size() || last == 0 ? place : last;
  }

 private:
  size_t run(size_t place, uint8_t mask, bool wanted) const {
    while (place < size()) {
      const CodePoint one = valid_code_point(&text_[place]);
      if (((classes_[one.value] & mask) != 0) != wanted) break;
      place += one.length;
    }
    return place;
  }

  std::string_view text_;
  const uint8_t* classes_;
};

// (?i:'s|'t|'re|'ve|'m|'ll|'d) at the beginning, where a quote is; 0: none of them.
size_t contraction(std::string_view text, bool any_case) {
  char letters[2] = {};
  size_t length = 1;
  for (char& letter : letters) {
    if (length == text.size()) break;
    letter = text[length];
    if (any_case && letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    const bool long_s = any_case && text.substr(length).starts_with("\xC5\xBF");  // the lower case of S, too
    if (long_s) letter = 's';
    length += long_s ? 2 : 1;
    if (&letter == letters && std::string_view("stmd").find(letter) != std::string_view::npos) return length;
  }
  const std::string_view two(letters, 2);
  return two == "re" || two == "ve" || two == "ll" ? length : 0;
}

// \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// at the beginning, where no letter is, with up to `most` numbers in the place of 3, and `ends` in
// the place of \r\n behind other characters.
size_t digits_others_or_white(std::string_view all, const ClassedText& text, int most, std::string_view ends) {
  size_t place = 0;
  while (place < text.size() && most > 0 && (text.classes(place) & kNumber) != 0) {
    place = text.after(place);
    --most;
  }
  if (place > 0) return place;
  const size_t begin = all[0] == ' ' ? 1 : 0;
  if (const size_t end = text.skip_others(begin, kWhite | kLetter | kNumber); end > begin)
    return std::min(all.find_first_not_of(ends, end), all.size());
  const std::string_view white = all.substr(0, text.skip(0, kWhite));
  const size_t last_line_end = white.find_last_of("\r\n");
  return last_line_end != std::string_view::npos ? last_line_end + 1 : text.white();
}

// [^\r\n\p{L}\p{N}] at the beginning: its end; 0: another character.
size_t first_other(std::string_view all, const ClassedText& text) {
  const bool other = all[0] != '\r' && all[0] != '\n' && (text.classes(0) & (kLetter | kNumber)) == 0;
  return other ? text.after(0) : 0;
}

// (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+| and the above
size_t word_of_letters(std::string_view all, int most) {
  if (all[0] == '\'')
    if (const size_t length = contraction(all, /*any_case=*/true); length > 0) return length;
  const ClassedText text(all);
  const size_t begin = first_other(all, text);
  if (const size_t end = text.skip(begin, kLetter); end > begin) return end;
  return digits_others_or_white(all, text, most, "\r\n");
}

// [^\r\n\p{L}\p{N}]?U*L+ at the beginning; if that is nowhere, [^\r\n\p{L}\p{N}]?U+L*; 0: neither.
// U are letters but \p{Ll}, and marks; L are letters but \p{Lu} and \p{Lt}, and marks.
size_t cased_word(std::string_view all, const ClassedText& text) {
  const auto is_upper = [](uint8_t c) { return (c & (kLetter | kMark)) != 0 && (c & kLower) == 0; };
  const auto is_lower = [](uint8_t c) { return (c & (kLetter | kMark)) != 0 && (c & kUpper) == 0; };
  // The end of U*L+ from `begin` on, or of U+ if there is no such L; 0: nothing.
  const auto end_of = [&](size_t begin, bool needs_lower) -> size_t {
    size_t place = begin, last_lower = 0;
    for (; place < text.size() && is_upper(text.classes(place)); place = text.after(place))
      if (is_lower(text.classes(place))) last_lower = text.after(place);
    const size_t uppers = place;
    while (place < text.size() && is_lower(text.classes(place))) place = text.after(place);
    if (place > uppers) return place;
    if (needs_lower) return last_lower;
    return place > begin ? place : 0;
  };
  const size_t behind_other = first_other(all, text);
  for (const bool needs_lower : {true, false}) {
    if (const size_t end = behind_other > 0 ? end_of(behind_other, needs_lower) : 0; end > 0) return end;
    if (const size_t end = end_of(0, needs_lower); end > 0) return end;
  }
  return 0;
}

}  // namespace

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t gpt2_word(std::string_view all) {
  if (all[0] == '\'')
    if (const size_t length = contraction(all, /*any_case=*/false); length > 0) return length;
  const ClassedText text(all);
  const size_t begin = all[0] == ' ' && all.size() > 1 ? 1 : 0;
  const uint8_t first = text.classes(begin);
  if ((first & kLetter) != 0) return text.skip(begin, kLetter);
  if ((first & kNumber) != 0) return text.skip(begin, kNumber);
  if ((first & kWhite) == 0) return text.skip_others(begin, kWhite | kLetter | kNumber);
  return text.white();
}

size_t llama3_word(std::string_view text) { return word_of_letters(text, 3); }
size_t qwen2_word(std::string_view text) { return word_of_letters(text, 1); }

size_t o200k_word(std::string_view all) {
  const ClassedText text(all);
  const size_t end = cased_word(all, text);
  if (end == 0) return digits_others_or_white(all, text, 3, "\r\n/");
  return end + (end < all.size() && all[end] == '\'' ? contraction(all.substr(end), /*any_case=*/true) : 0);
}

size_t tekken_word(std::string_view all) {
  const ClassedText text(all);
  const size_t end = cased_word(all, text);
  return end > 0 ? end : digits_others_or_white(all, text, 1, "\r\n/");
}

size_t digit_or_rest(std::string_view all) {
  const ClassedText text(all);
  return (text.classes(0) & kNumber) != 0 ? text.after(0) : text.skip_others(0, kNumber);
}

size_t digits_or_rest(std::string_view all) {
  const ClassedText text(all);
  return (text.classes(0) & kNumber) != 0 ? text.skip(0, kNumber) : text.skip_others(0, kNumber);
}

size_t metaspace_word(std::string_view text) {
  const size_t next = text.find("\u2581", 1);
  return std::min(next, text.size());
}

namespace {

struct Row {
  std::string_view pattern;
  Splitter splitter;
};

constexpr Row kRows[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", gpt2_word},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", gpt2_word},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
     R"(\s+(?!\S)|\s+)",
     llama3_word},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
     R"(\s+(?!\S)|\s+)",
     qwen2_word},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     o200k_word},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
     R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     tekken_word},
};

}  // namespace

Splitter splitter_of_pattern(std::string_view pattern) {
  const auto* const row = std::ranges::find(kRows, pattern, &Row::pattern);
  return row == std::end(kRows) ? nullptr : row->splitter;
}

std::string_view pattern_of_splitter(Splitter splitter) {
  const auto* const row = std::ranges::find(kRows, splitter, &Row::splitter);
  return row == std::end(kRows) ? std::string_view() : row->pattern;
}

}  // namespace axonn
