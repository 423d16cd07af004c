#pragma once

#include <filesystem>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/optim/scattered_optimizer.hpp"

namespace axonn {

// Tensors and optimizer state of this rank, as checkpoint tensors.
std::vector<CheckpointTensor> checkpoint_tensors(const ScatteredOptimizer& optimizer);

// Writes step-000500 of the run's directory, where 500 is optimizer.steps_taken(); `state` may say
// more (CheckpointState). Returns the checkpoint's directory. Each rank writes its part of the
// optimizer's state. Every rank of the group calls it, with a directory that all of them see.
// Errors are those of CheckpointWriter::save.
std::filesystem::path save_checkpoint(const ScatteredOptimizer& optimizer, const std::filesystem::path& directory,
                                      CheckpointState state = {});

// Reads the newest checkpoint of a run's directory, or one step's, on any number of ranks. Every
// rank of the group calls it. UserError on all of them: ranks that read different checkpoints, and
// those of CheckpointReader.
CheckpointState load_checkpoint(ScatteredOptimizer& optimizer, const std::filesystem::path& directory);

}  // namespace axonn
