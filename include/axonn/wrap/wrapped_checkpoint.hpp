#pragma once

#include <filesystem>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/wrap/shard.hpp"

namespace torch::optim {
class Optimizer;
}

// Checkpoints of a run that trains a wrapped module with an optimizer of torch::optim. The run goes
// on from them after a kill, on any grid. They hold the master weights, frozen parameters and
// buffers ("weights/conv1.weight", with the module's names), and the optimizer's state
// ("exp_avg/conv1.weight", "step/conv1.weight"). For files that other programs read, see
// state_dict.hpp.
//
//   int64_t step = 0;
//   if (!axonn::checkpoints_in("runs/mine").empty())
//     step = axonn::load_checkpoint(parameters, optimizer, "runs/mine").step;
//   while (step < 1000) {
//     ...  // train
//     if (++step % 100 == 0)
//       axonn::save_checkpoint(parameters, optimizer, "runs/mine", {.step = step});
//   }
namespace axonn {

// Writes step-000500 of the run's directory, where 500 is state.step, and removes all but the
// newest two checkpoints. Each rank of the first data group writes its part. A run that is killed
// at any moment leaves the checkpoints that were complete. Every rank of the grid calls it between
// steps, with a directory that all of them see. Returns the checkpoint's directory. UserError for
// an optimizer that is not SGD, Adam, AdamW, Adagrad or RMSprop; otherwise those of
// CheckpointWriter::save.
std::filesystem::path save_checkpoint(const WrappedModule& parameters, torch::optim::Optimizer& optimizer,
                                      const std::filesystem::path& directory, const CheckpointState& state);

// Reads the newest checkpoint of a run's directory, or one step's, on any grid, whether shard() or
// parallelize() has wrapped the module there and here. On the grid that wrote it, training goes on
// with the same bits. Options such as the learning rate, and random numbers, are the program's.
// Every rank of the grid calls it between steps. UserError on all of them: a tensor that is
// missing, has another shape, or is of another module or optimizer; ranks that read different
// checkpoints; otherwise those of CheckpointReader. After an error the values are undefined.
CheckpointState load_checkpoint(const WrappedModule& parameters, torch::optim::Optimizer& optimizer,
                                const std::filesystem::path& directory);

}  // namespace axonn
