#pragma once

#include <string>

#include "axonn/comm/environment.hpp"

namespace axonn {

// UserError for an environment variable whose value means nothing; before a rank is started.
void check_environment();

// As AXONN_LOG and AXONN_LOG_ALL_RANKS say; again when this rank's place on the grid is known.
void configure_log(const Environment& environment, const std::string& grid);

// Memory that was freed stays with the process: the next step asks for as much, and getting it from the system page by page took a tenth of
// a UNet's step. Blocks of 32 MiB and more still go back. At the start of a program.
void keep_freed_memory();

// Threads that compute: OMP_NUM_THREADS, or the node's cores divided by its ranks. Before the first operation on tensors.
void share_cores(const Environment& environment);

}  // namespace axonn
