#pragma once

#include <string>

#include "axonn/coconet/language/dataflow.hpp"

// When two programs are one.
namespace axonn::tune {

// One text for programs that are equal apart from the names of their sections.
std::string canonical_text(const coconet::Program& program);

// A program's run in an executor: its plan without names of sections, and without the dims that are
// cut. Schedules of a program with one key run alike. "": it has no plan.
std::string run_key(const coconet::Program& program);

}  // namespace axonn::tune
