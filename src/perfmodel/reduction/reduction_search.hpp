#pragma once

#include <span>
#include <vector>

#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/grid/reduction/reduction_semantics.hpp"

namespace axonn {

// Every sequence of at most `length_limit` choices, as indices into `choices`, that takes the
// devices 0 .. devices-1 from the start to the goal by the rules of ReductionState. Shortest first,
// then in the order of the choices. A sequence ends when it reaches the goal.
//
// Each state is expanded once, however many paths lead to it. The cost is (states within
// length_limit - 1 steps) x choices. At most 64 devices.
std::vector<std::vector<int>> search_reductions(int devices, std::span<const ReductionStep> choices,
                                                std::span<const std::vector<int>> groups, ReductionGoal goal,
                                                int length_limit);

}  // namespace axonn
