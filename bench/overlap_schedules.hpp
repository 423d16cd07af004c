#pragma once

#include "axonn/comm/environment.hpp"
#include "overlap_options.hpp"

namespace axonn::bench {

// Steps of one network under each schedule of the optimizer, clipped, with every overlap. The
// schedules take turns; a turn is a few steps in a row, so that a gather of one step may hide under
// the next. Prints a table on rank 0.
void compare_schedules(Environment& environment, const OverlapOptions& options);

}  // namespace axonn::bench
