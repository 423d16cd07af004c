#pragma once

#include <cstdint>

namespace axonn {

// Each sequence divided over ranks that share the weights, which are neighbours on Z (context
// parallelism; ForwardSchedule::context). Keys and values of one rank at a time pass around the
// ranks beside attention (ring attention; Liu et al., 2023).
struct ContextSplit {
  int64_t ranks = 1;
  // As other programs do, and not this trainer. Keys and values of the whole sequence are gathered
  // before attention, and their gradients scattered after it.
  bool gathers = false;
  bool over_data = false;  // the same: if Z = 1, the ranks are neighbours on data
};

}  // namespace axonn
