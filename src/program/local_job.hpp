#pragma once

#include "axonn/grid/grid_shape.hpp"

namespace axonn {

// Starts `ranks` copies of this program (the same arguments) on this machine as one job over TCP, waits for them, and returns the worst
// exit status. When one fails the others are ended. Only for a process that no launcher started.
int run_local_job(int ranks, char** argv);

// Whether a launcher (mpirun, srun, RANK and WORLD_SIZE) started this process.
bool launched();

// Its rank by the launcher's account, 0 without one; known before there is an Environment.
int launched_rank();

}  // namespace axonn
