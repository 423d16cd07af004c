#pragma once

#include "axonn/grid/grid_shape.hpp"

namespace axonn {

inline constexpr int kMostLocalRanks = 64;

// Starts `ranks` copies of this program (with the same arguments) on this machine as one job over
// TCP. Waits for them and returns the first exit status that is not 0. Passes on SIGINT, SIGTERM
// and SIGUSR1. If one rank fails, the others are over within 10 s. Only for a process that no
// launcher started.
int run_local_job(int ranks, char** argv);

}  // namespace axonn
