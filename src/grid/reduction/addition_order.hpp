#pragma once

#include <span>
#include <vector>

#include "axonn/grid/reduction/reduction_program.hpp"

namespace axonn {

// UserError unless a program that sums over `groups` (check_reduces) adds in the same order for
// every member of a group, so that all get the same bits. A collective adds its members'
// contributions in the order of the group, from the owner's successor on. Two groups of a step may
// list corresponding members in different orders.
void check_addition_order(const ReductionProgram& program, std::span<const std::vector<int>> groups);

}  // namespace axonn
