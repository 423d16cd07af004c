#pragma once

#include "axonn/grid/grid_shape.hpp"
#include "axonn/program/program.hpp"

namespace axonn {

inline constexpr int kMostLocalRanks = 64;

// Starts `ranks` copies of this program (with the same arguments) on this machine as one job over
// TCP. Waits for them and returns the first exit status that is not 0. Passes on SIGINT, SIGTERM,
// SIGUSR1 and SIGHUP (unless nohup ignores it); Ctrl-Z stops all ranks until it continues. If one
// rank fails, the others are over within 10 s. Then the job starts again as often as `restarts`
// allows, unless one of these signals came, or the failure would repeat: an error of a rank, or a
// second death, without a step forward.
// Only for a process that no launcher started.
int run_local_job(int ranks, char** argv, const Restarts& restarts = {});

}  // namespace axonn
