#pragma once

#include <string>
#include <vector>

#include "axonn/coconet/language/dataflow.hpp"

namespace axonn::coconet {

// Whether a statement works on the elements of tensors: it computes, stores, moves or reduces them.
bool touches_elements(const Program& program, const Statement& statement);

// The statements that touch elements, by the passes over the elements that they need: what depends
// on the result of a reduction comes in a later pass than the reduction. Without collectives, the
// reductions and gathers among ranks, and the stores of what they gather, are in no pass.
std::vector<std::vector<std::string>> update_levels(const Program& program, bool with_collectives);

}  // namespace axonn::coconet
