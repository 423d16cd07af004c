#include "axonn/coconet/text/program_text.hpp"

#include <algorithm>

#include "coconet/language/typing.hpp"
#include "coconet/text/expression_parser.hpp"
#include "coconet/text/program_parser.hpp"

namespace axonn::coconet {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

std::string text_of(const Declaration& declaration) {
  const std::string value = declaration.value              ? " = " + Expression(*declaration.value).to_string()
                            : !declaration.copy_of.empty() ? " = " + declaration.copy_of
                                                           : "";
  if (declaration.type == scalar_type()) return "scalar " + declaration.name + value;
  return "tensor " + declaration.name + " " + declaration.type.to_string() + value;
}

// The sections that hold a statement, from the outermost on.
std::vector<const Section*> sections_of(const Program& program, std::string_view statement) {
  std::vector<const Section*> sections;
  for (const Section* section = program.section_of(statement); section != nullptr;
       section = program.section_of(section->name))
    sections.insert(sections.begin(), section);
  return sections;
}

std::string indent(size_t depth) { return std::string(2 * depth, ' '); }

std::string statements_text(const Program& program) {
  std::string text;
  std::vector<const Section*> open;
  const auto close_to = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) text += indent(open.size() - 1) + "}\n";
  };
  for (const Statement& statement : program.statements()) {
    const std::vector<const Section*> around = sections_of(program, statement.name);
    const size_t kept = static_cast<size_t>(std::ranges::mismatch(open, around).in1 - open.begin());
    close_to(kept);
    for (size_t depth = kept; depth < around.size(); ++depth) {
      const Section& section = *around[depth];
      text += indent(depth) + (section.kind == SectionKind::fuse ? "fuse " : "overlap ") + section.name + " {\n";
      open.push_back(&section);
    }
    text += indent(open.size()) + statement.name + " = " + statement.expression.to_string() + "\n";
  }
  close_to(0);
  return text;
}

}  // namespace

std::string to_text(const Program& program) {
  const ProgramParts& parts = program.parts();
  std::string text = "program " + parts.name + "\n";
  if (parts.groups > 1) text += "groups " + std::to_string(parts.groups) + "\n";
  if (!parts.sizes.empty()) text += "size " + joined(parts.sizes) + "\n";
  for (const Declaration& declaration : parts.declarations) text += text_of(declaration) + "\n";
  text += statements_text(program);
  if (!parts.outputs.empty()) text += "return " + joined(parts.outputs) + "\n";
  return text;
}

ProgramAndRest parse_program_and_rest(std::string_view text, std::string_view file, const Guards& guards) {
  Lexer lexer(text, file);
  ProgramParts parts = ProgramParser(lexer).parse();
  const bool ends = lexer.token().kind == TokenKind::end;
  try {
    return {.program = Program(std::move(parts), guards),
            .rest = ends ? std::string_view() : lexer.rest(),
            .rest_line = ends ? 0 : lexer.token().line};
  } catch (const UserError& error) {
    throw UserError(error.where(), detail::concatenate(file, ": ", error.sentence()));
  }
}

Program parse_program(std::string_view text, std::string_view file, const Guards& guards) {
  ProgramAndRest read = parse_program_and_rest(text, file, guards);
  AXONN_CHECK(read.rest.empty(), "coconet.program_text", file, ":", read.rest_line,
              ": expected a program only, got a schedule: remove it");
  return std::move(read.program);
}

Expression parse_expression(std::string_view text) {
  Lexer lexer(text, "expression");
  while (lexer.token().kind == TokenKind::line_end) lexer.take();
  const Expression expression = ExpressionParser(lexer).parse();
  while (lexer.token().kind == TokenKind::line_end) lexer.take();
  if (lexer.token().kind != TokenKind::end) lexer.fail_expected("the end of the expression");
  return expression;
}

}  // namespace axonn::coconet
