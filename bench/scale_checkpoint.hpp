#pragma once

#include <cstdint>

#include "axonn/grid/grid.hpp"
#include "echo_transport.hpp"

namespace axonn::bench {

// The costs of a save or a resume for one rank.
struct CheckpointCosts {
  Sent save, resume;                         // without the tensors
  Sent tensors;                              // that it passes on to ranks that hold the same
  int64_t save_calls = 0, resume_calls = 0;  // system calls with a path of the checkpoint; -1: not to be traced
  int64_t opens_to_load = 0;                 // files of which a rank reads parts, of these calls
  int64_t read_bytes = 0;                    // these files have
  int64_t memory = 0;                        // that the manifest and the plan of reading take
  double cpu_seconds = 0;                    // the same
};

struct CheckpointCounts {
  size_t tensors = 0, files = 0, parts = 0;
  int64_t manifest_bytes = 0;
  CheckpointCosts rank_0, last;
};

// A checkpoint of gpt80b with AdamW, one file per eight ranks, on a grid of any size. Rank 0 and
// the last rank run our own code; the others are an echo. Files have sizes and no content.
CheckpointCounts count_checkpoint(const GridShape& shape);

}  // namespace axonn::bench
