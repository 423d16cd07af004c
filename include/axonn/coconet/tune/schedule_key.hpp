#pragma once

#include <string>

#include "axonn/coconet/language/dataflow.hpp"

// When two programs are one.
namespace axonn::coconet {

// Of programs that are equal apart from the names of their sections, one text.
std::string canonical_text(const Program& program);

// What an executor does with a program: its plan without names of sections, and without the dims
// that are cut. Schedules of a program with one key run alike. "": it has no plan.
std::string run_key(const Program& program);

}  // namespace axonn::coconet
