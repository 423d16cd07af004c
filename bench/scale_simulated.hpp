#pragma once

#include <string>

namespace axonn::bench {

// Counts what ranks of a job do on a grid of any size, without the other ranks: the channels of all
// grids of as many ranks, the start-up, small collectives, a training step, staging memory, the
// report of a hang, and a checkpoint. Our own code runs; nothing is computed by formula. Prints a
// table. Returns whether the limits of docs/benchmarks.md hold.
bool simulate_scale(const std::string& grid);

}  // namespace axonn::bench
