#pragma once

#include <cstdint>

namespace axonn {

// Counts of one rank's progress engine since its start; for tests and reports.
struct EngineCounters {
  int64_t polls = 0;
  int64_t naps = 0;
  int64_t wake_ups = 0;     // wake-ups of its thread from sleep
  int64_t allocations = 0;  // blocks taken from the system for operations and staging buffers; constant in steady state
};

}  // namespace axonn
