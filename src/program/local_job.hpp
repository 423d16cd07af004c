#pragma once

#include "axonn/grid/grid_shape.hpp"

namespace axonn {

// Starts `ranks` copies of this program (with the same arguments) on this machine as one job over
// TCP. Waits for them and returns the worst exit status. If one fails, it ends the others. Only for
// a process that no launcher started.
int run_local_job(int ranks, char** argv);

}  // namespace axonn
