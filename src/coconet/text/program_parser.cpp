#include "coconet/text/program_parser.hpp"

#include <algorithm>

#include "coconet/language/typing.hpp"
#include "coconet/text/expression_parser.hpp"
#include "coconet/language/words.hpp"

namespace axonn::coconet {

ProgramParts ProgramParser::parse() {
  while (lexer_.token().kind == TokenKind::line_end) lexer_.take();
  lexer_.expect("program", "and a name in the first line");
  parts_.name = name("the program's name");
  end_of_line("the program's name");
  while (at_a_line()) line();
  return std::move(parts_);
}

bool ProgramParser::at_a_line() {
  while (lexer_.token().kind == TokenKind::line_end) lexer_.take();
  return lexer_.token().kind != TokenKind::end && !lexer_.is("schedule");
}

void ProgramParser::line() {
  if (returned_) lexer_.fail_expected("nothing after `return` except `schedule`");
  if (lexer_.is("groups")) return groups();
  if (lexer_.is("size")) return sizes();
  if (lexer_.is("tensor")) return tensor();
  if (lexer_.is("scalar")) return scalar();
  if (lexer_.is("return")) return returns();
  if (lexer_.is("fuse")) return section(SectionKind::fuse, nullptr);
  if (lexer_.is("overlap")) return section(SectionKind::overlap, nullptr);
  statement(nullptr);
}

void ProgramParser::end_of_line(std::string_view after) {
  if (lexer_.token().kind == TokenKind::end) return;
  if (lexer_.token().kind != TokenKind::line_end)
    lexer_.fail_expected(detail::concatenate("the end of the line after ", after));
  lexer_.take();
}

std::string ProgramParser::name(std::string_view what) { return std::string(lexer_.expect_name(what).text); }

void ProgramParser::groups() {
  const Token word = lexer_.take();
  if (groups_given_) lexer_.fail(word, "groups must be given only once");
  groups_given_ = true;
  parts_.groups = lexer_.expect_integer<int>("the number of groups", 1, Program::kMostGroups);
  end_of_line("the number of groups");
}

void ProgramParser::sizes() {
  lexer_.take();
  do {
    const Token symbol = lexer_.token();
    parts_.sizes.push_back(name("the name of a size"));
    if (std::ranges::count(parts_.sizes, symbol.text) > 1)
      lexer_.fail(symbol, detail::concatenate("size ", symbol.text, " must be declared only once"));
  } while (lexer_.take_if(","));
  end_of_line("the sizes");
}

void ProgramParser::tensor() {
  const int line = lexer_.take().line;
  Declaration read = {.name = name("the name of a tensor"), .type = {}, .line = line};
  read.type.element = lexer_.expect_named<ElementType>("an element type");
  read.type.shape = shape();
  read.type.distribution = distribution();
  if (lexer_.take_if("on")) read.type.group = lexer_.expect_integer<int>("the group of a tensor", 0);
  if (lexer_.take_if("=")) {
    if (lexer_.token().kind == TokenKind::word)
      read.copy_of = name("a number or a declared tensor");
    else
      read.value = lexer_.expect_number("a number or a declared tensor");
  }
  parts_.declarations.push_back(std::move(read));
  end_of_line("the tensor's distribution and group");
}

void ProgramParser::scalar() {
  const int line = lexer_.take().line;
  Declaration read = {.name = name("the name of a scalar"), .type = scalar_type(), .line = line};
  if (lexer_.take_if("=")) read.value = lexer_.expect_number("a number");
  parts_.declarations.push_back(std::move(read));
  end_of_line("the scalar");
}

void ProgramParser::returns() {
  parts_.return_line = lexer_.take().line;
  returned_ = true;
  do parts_.outputs.push_back(name("the name of a statement"));
  while (lexer_.take_if(","));
  end_of_line("what is returned");
}

// Reads every section in a section; the rule of members says which of them may be.
void ProgramParser::section(SectionKind kind, Section* outer) {
  const int line = lexer_.take().line;
  Section read = {.kind = kind, .name = name("the name of a section"), .members = {}, .line = line};
  if (outer != nullptr) outer->members.push_back(read.name);
  lexer_.expect("{", "after the section's name");
  end_of_line("'{'");
  while (!lexer_.is("}")) {
    if (!at_a_line()) lexer_.fail_expected(detail::concatenate("'}' to close '{' of line ", line));
    if (lexer_.is("}")) break;
    if (!lexer_.is("fuse") && !lexer_.is("overlap")) {
      statement(&read);
    } else {
      if (outer != nullptr) lexer_.fail(lexer_.token(), "sections must lie at most two deep in each other");
      section(lexer_.is("fuse") ? SectionKind::fuse : SectionKind::overlap, &read);
    }
  }
  lexer_.expect("}", "");
  parts_.sections.push_back(std::move(read));
  end_of_line("'}'");
}

void ProgramParser::statement(Section* section) {
  const Token first = lexer_.token();
  if (first.kind == TokenKind::word && !is_reserved(first.text) && lexer_.next_token().text != "=")
    lexer_.fail(first, detail::concatenate("expected NAME = EXPRESSION or a line that begins with program, groups, "
                                           "size, tensor, scalar, fuse, overlap or return, got '",
                                           first.text, "'", did_you_mean(first.text, kLineWords)));
  std::string target = name("the name of a statement");
  lexer_.expect("=", "after the name of the statement");
  Expression expression = ExpressionParser(lexer_).parse();
  if (section != nullptr) section->members.push_back(target);
  parts_.statements.push_back({.name = std::move(target), .expression = std::move(expression), .line = first.line});
  end_of_line("the expression");
}

Shape ProgramParser::shape() {
  lexer_.expect("[", "before the sizes of the tensor");
  Shape read;
  if (lexer_.take_if("]")) return read;
  do read.push_back(size());
  while (lexer_.take_if(","));
  lexer_.expect("]", "after the sizes of the tensor");
  return read;
}

Size ProgramParser::size() {
  Size read = factor();
  for (Token at = lexer_.token(); lexer_.take_if("*"); at = lexer_.token()) {
    const Size next = factor();
    read = lexer_.in_place(at, [&] { return read * next; });
  }
  return read;
}

Size ProgramParser::factor() {
  if (lexer_.token().kind != TokenKind::word) return Size(lexer_.expect_integer<int64_t>("a size", 1));
  return Size(name("a size"));
}

Distribution ProgramParser::distribution() {
  Distribution read;
  read.placement = lexer_.expect_named<Placement>("a tensor's distribution");
  if (!read.is(Placement::sliced) && !read.is(Placement::rooted)) return read;
  lexer_.expect("(", "after the distribution");
  (read.is(Placement::sliced) ? read.dim : read.root) = lexer_.expect_integer<int>("a dim or rank");
  lexer_.expect(")", "after the distribution");
  return read;
}

}  // namespace axonn::coconet
