#pragma once

#include "axonn/coconet/language/dataflow.hpp"

namespace axonn::coconet {

// Checks the rule of members, before the statements are ordered.
void check_members(const Program& program, const Guards& guards);

// Checks the other section_rules() for every section of a program that is typed and ordered.
void check_sections(const Program& program, const Guards& guards);

// The rule of a section whose statements cannot stand next to each other.
extern const Rule kSectionOrderRule;

}  // namespace axonn::coconet
