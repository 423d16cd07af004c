#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axonn/grid/grid.hpp"
#include "axonn/grid/reduction/reduction_program.hpp"

namespace axonn {

// --reduction auto: the programs that sum a bucket of gradients fastest on the machine's links,
// over data and over z+data. Empty if a plain all-reduce is as fast. It is pure arithmetic, so all
// ranks get the same result. Throws UserError if no machine is named, or if a node boundary lies
// within an axis.
std::vector<ReductionProgram> choose_reduction(const std::string& machine, int64_t bucket_bytes, const Grid& grid);

}  // namespace axonn
