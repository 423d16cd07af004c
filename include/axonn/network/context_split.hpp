#pragma once

#include <cstdint>

namespace axonn {

// Each sequence divided over ranks that share the weights, as other programs do (context
// parallelism). The ranks are neighbours on Z, or on data if Z = 1. This trainer does not do it.
struct ContextSplit {
  int64_t ranks = 1;
  // Keys and values of the whole sequence are gathered before attention, and their gradients
  // scattered after it. Else those of one rank at a time pass around the ranks beside attention
  // (ring attention; Liu et al., 2023).
  bool gathers = false;
};

}  // namespace axonn
