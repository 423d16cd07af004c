#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "axonn/core/error.hpp"
#include "axonn/core/names.hpp"

namespace axonn::coconet {

enum class TokenKind : uint8_t { word, number, sign, line_end, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // a part of the whole text
  size_t offset = 0;      // in the whole text
  int line = 0;
};

// Reads text token by token: words, numbers, signs, and line ends that are outside of parentheses
// and brackets. Every error is a UserError with file, line, column and the line's text. It reads
// nothing beyond next_token(), and keeps views of `text` and `file`.
class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file);

  const Token& token() const { return token_; }
  const Token& next_token();
  Token take();

  // Whether the token is this word or sign.
  bool is(std::string_view text) const;
  bool take_if(std::string_view text);
  void expect(std::string_view text, std::string_view place);
  Token expect_name(std::string_view what);
  double expect_number(std::string_view what);  // with a sign or none
  template <typename Integer>
  Integer expect_integer(std::string_view what, Integer least = std::numeric_limits<Integer>::min(),
                         Integer most = std::numeric_limits<Integer>::max()) {
    return static_cast<Integer>(expect_integer_within(what, least, most));
  }
  // The value that a name stands for: an element type, a reduction, a placement.
  template <typename Enum>
  Enum expect_named(std::string_view what) {
    if (token_.kind == TokenKind::line_end || token_.kind == TokenKind::end) fail_expected(what);
    const Token name = take();
    return in_place(name, [&] { return parse_name<Enum>(shown(name), what); });
  }

  // `action` with the place of `at` in its UserErrors.
  template <typename Action>
  auto in_place(const Token& at, const Action& action) const {
    try {
      return action();
    } catch (const UserError& error) {
      fail(at, error.sentence());
    }
  }
  [[noreturn]] void fail(const Token& at, std::string_view message) const;
  // "expected WHAT, got ..."
  [[noreturn]] void fail_expected(std::string_view what) const;

  std::string_view rest() const { return text_.substr(token_.offset); }

 private:
  int64_t expect_integer_within(std::string_view what, int64_t least, int64_t most);
  static std::string shown(const Token& token);
  Token read();
  void skip_blanks();
  size_t word_end(size_t begin) const;
  size_t number_end(size_t begin) const;
  size_t digits_end(size_t begin) const;
  char at(size_t offset) const { return offset < text_.size() ? text_[offset] : '\0'; }

  std::string_view text_, file_;
  size_t offset_ = 0;
  int line_ = 1;
  int open_ = 0;  // parentheses and brackets
  Token token_;
  std::optional<Token> next_;
};

}  // namespace axonn::coconet
