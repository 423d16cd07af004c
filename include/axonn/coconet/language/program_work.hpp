#pragma once

#include "axonn/coconet/language/dataflow.hpp"

namespace axonn::coconet {

// Memory and work of one rank that has all of every value. Numbers of any size: nothing overflows,
// so it is asked before anything is allocated.
struct ProgramWork {
  double elements = 0;    // in declared and computed values
  double operations = 0;  // on single elements; a layer has one per product that it adds
};

// UserError if a size has no value, or if a value has more elements than 64 bits can count.
ProgramWork work_of(const Program& program, const SizeValues& sizes);

}  // namespace axonn::coconet
