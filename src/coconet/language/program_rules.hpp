#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "axonn/coconet/language/dataflow.hpp"

// The rules of names, declarations and outputs, and the words with which errors name a place.
namespace axonn::coconet {

enum class ProgramRule : uint8_t { names, declarations, defined, stale, update_once, outputs };

void check(bool holds, const Guards& guards, ProgramRule rule, std::string_view place, std::string_view got);
void check_names(const ProgramParts& parts, const Guards& guards);
void check_declaration(const Declaration& declaration, const ProgramParts& parts, const Guards& guards);

std::string with_line(std::string place, int line);
// An expression with the parts that were made statements of their own.
Expression written(const std::vector<Statement>& statements, const Expression& expression);
// The statement as the user wrote it.
std::string place_of(const std::vector<Statement>& statements, const Statement& statement);

}  // namespace axonn::coconet
