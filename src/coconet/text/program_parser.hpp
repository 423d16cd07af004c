#pragma once

#include "axonn/coconet/language/dataflow.hpp"
#include "coconet/text/lexer.hpp"

namespace axonn::coconet {

// Reads the lines of a program, up to the end of the text or a line that begins with `schedule`.
class ProgramParser {
 public:
  explicit ProgramParser(Lexer& lexer) : lexer_(lexer) {}
  ProgramParts parse();

 private:
  bool at_a_line();
  void line();
  void end_of_line(std::string_view after);
  void groups();
  void sizes();
  void tensor();
  void scalar();
  void returns();
  void section(SectionKind kind, Section* outer);
  void statement(Section* section);
  std::string name(std::string_view what);
  Shape shape();
  Size size();
  Size factor();
  Distribution distribution();

  Lexer& lexer_;
  ProgramParts parts_;
  bool groups_given_ = false, returned_ = false;
};

}  // namespace axonn::coconet
