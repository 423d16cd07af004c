#pragma once

#include <string>
#include <vector>

#include "axonn/comm/communicator.hpp"

namespace axonn {

struct Setting {
  std::string name, value;  // "AXONN_SHARED_MEMORY", "0"
};

// For settings that all ranks must share, since they decide who sends what to whom. UserError on
// every rank, with the lowest rank that differs from rank 0, and both values; else the ranks would
// wait for each other until the time-out. All ranks name the same settings. Collective.
void check_same_settings(Communicator& everyone, const std::vector<Setting>& settings);

}  // namespace axonn
