#include "coconet/text/lexer.hpp"

#include <algorithm>
#include <charconv>

#include "coconet/language/words.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.program_text";
constexpr size_t kMostBytes = size_t{1} << 20;
constexpr size_t kShownColumns = 80;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool goes_on(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

// For messages: what is not printable becomes a question mark.
std::string printable(std::string_view text) {
  std::string shown(text);
  std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) {
  AXONN_CHECK(text.size() <= kMostBytes, kWhere, file, ": a program's text has at most ", kMostBytes, " bytes, got ",
              text.size());
  token_ = read();
}

const Token& Lexer::next_token() {
  if (!next_) next_ = read();
  return *next_;
}

Token Lexer::take() {
  const Token taken = token_;
  token_ = next_token();
  next_.reset();
  return taken;
}

bool Lexer::is(std::string_view text) const {
  return (token_.kind == TokenKind::word || token_.kind == TokenKind::sign) && token_.text == text;
}

bool Lexer::take_if(std::string_view text) {
  const bool found = is(text);
  if (found) take();
  return found;
}

void Lexer::expect(std::string_view text, std::string_view place) {
  if (!take_if(text)) fail_expected(detail::concatenate("'", text, "' ", place));
}

Token Lexer::expect_name(std::string_view what) {
  if (token_.kind != TokenKind::word) fail_expected(what);
  if (is_reserved(token_.text)) fail_expected(detail::concatenate(what, ", which is no word of the language"));
  return take();
}

double Lexer::expect_number(std::string_view what) {
  const bool negative = take_if("-");
  if (token_.kind != TokenKind::number) fail_expected(what);
  const Token digits = take();
  double number = 0;
  const auto read = std::from_chars(digits.text.data(), digits.text.data() + digits.text.size(), number);
  if (read.ec != std::errc()) fail(digits, detail::concatenate(what, " must fit into a double, got ", digits.text));
  return negative ? -number : number;
}

int64_t Lexer::expect_integer_within(std::string_view what, int64_t least, int64_t most) {
  const Token first = token_;
  std::string digits = take_if("-") ? "-" : "";
  if (token_.kind != TokenKind::number || !std::ranges::all_of(token_.text, is_digit)) fail_expected(what);
  digits += take().text;
  int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec != std::errc() || value < least || value > most)
    fail(first, detail::concatenate(what, " must be from ", least, " to ", most, ", got ", digits));
  return value;
}

void Lexer::fail(const Token& at, std::string_view message) const {
  const size_t begin = text_.substr(0, at.offset).find_last_of('\n') + 1;  // npos + 1: 0
  const std::string_view line = text_.substr(begin, text_.substr(begin).find('\n'));
  const size_t column = at.offset - begin;
  const size_t first = column < kShownColumns ? 0 : column - kShownColumns / 2;
  std::string part = printable(line.substr(first, kShownColumns));
  if (!part.empty() && line.ends_with('\r') && first + part.size() == line.size()) part.pop_back();
  throw UserError(kWhere, detail::concatenate(file_, ":", at.line, ": ", message, " (see column ", column + 1, " of '",
                                              first > 0 ? "..." : "", part,
                                              first + kShownColumns < line.size() ? "..." : "", "')"));
}

void Lexer::fail_expected(std::string_view what) const {
  const std::string got = token_.kind == TokenKind::line_end ? "the end of the line"
                          : token_.kind == TokenKind::end    ? "the end of the text"
                                                             : "'" + shown(token_) + "'";
  fail(token_, detail::concatenate("expected ", what, ", got ", got));
}

std::string Lexer::shown(const Token& token) { return printable(token.text.substr(0, kShownColumns)); }

void Lexer::skip_blanks() {
  for (; offset_ < text_.size(); ++offset_) {
    if (at(offset_) == '#') offset_ = std::min(text_.find('\n', offset_), text_.size());
    const char c = at(offset_);
    if (offset_ == text_.size() || (c == '\n' && open_ == 0)) return;
    if (c == '\n')
      ++line_;
    else if (c != ' ' && c != '\t' && c != '\r')
      return;
  }
}

Token Lexer::read() {
  skip_blanks();
  Token token = {.kind = TokenKind::end, .text = {}, .offset = offset_, .line = line_};
  if (offset_ >= text_.size()) return token;
  const char first = text_[offset_];
  size_t end = offset_ + 1;
  if (first == '\n') {
    token.kind = TokenKind::line_end;
    ++line_;
  } else if (is_letter(first)) {
    token.kind = TokenKind::word;
    end = word_end(offset_);
  } else if (is_digit(first)) {
    token.kind = TokenKind::number;
    end = number_end(offset_);
  } else {
    token.kind = TokenKind::sign;
    constexpr std::string_view kSigns = "()[]{},=+-*/^<>!";
    const bool two = at(end) == '=' && (first == '<' || first == '>' || first == '=' || first == '!');
    if (two) ++end;
    if (first == '\0' || kSigns.find(first) == std::string_view::npos || (first == '!' && !two))
      fail(token, detail::concatenate("no program has the byte ", static_cast<int>(static_cast<unsigned char>(first)),
                                      first > ' ' && first <= '~' ? std::string(", '") + first + "'," : "",
                                      " here: use letters, digits and ", kSigns));
    if (first == '(' || first == '[') ++open_;
    if ((first == ')' || first == ']') && open_ > 0) --open_;
  }
  token.text = text_.substr(offset_, end - offset_);
  offset_ = end;
  if (token.kind == TokenKind::word && !is_word(token.text))
    fail(token, "a name must have at most 100 characters and no dot at its end");
  return token;
}

size_t Lexer::word_end(size_t begin) const {
  while (goes_on(at(begin))) ++begin;
  return begin;
}

size_t Lexer::digits_end(size_t begin) const {
  while (is_digit(at(begin))) ++begin;
  return begin;
}

// DIGITS [. DIGITS] [e [+-] DIGITS], and nothing that goes on.
size_t Lexer::number_end(size_t begin) const {
  size_t end = digits_end(begin);
  bool complete = true;
  if (at(end) == '.') {
    complete = is_digit(at(end + 1));
    end = digits_end(end + 1);
  }
  if (at(end) == 'e' || at(end) == 'E') {
    const size_t exponent = end + (at(end + 1) == '+' || at(end + 1) == '-' ? 2 : 1);
    complete = complete && is_digit(at(exponent));
    end = digits_end(exponent);
  }
  if (!complete || goes_on(at(end)))
    fail({.kind = TokenKind::number, .text = {}, .offset = begin, .line = line_},
         "a number must be written such as 12, 0.5 or 1e-3");
  return end;
}

}  // namespace axonn::coconet
