#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axonn/grid/grid.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"

namespace axonn {

// --reduction auto: the programs that sum a bucket of gradients fastest on the machine's links, over data and over z+data; none where a
// plain all-reduce is as fast. Arithmetic: the same on every rank. UserError: no machine named, or one whose nodes end within an axis.
std::vector<ReductionProgram> choose_reduction(const std::string& machine, int64_t bucket_bytes, const Grid& grid);

}  // namespace axonn
