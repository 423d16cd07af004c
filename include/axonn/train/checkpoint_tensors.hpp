#pragma once

#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/optim/optimizer.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

// Weights, optimizer state and the task's state, as checkpoint tensors of this rank.
std::vector<CheckpointTensor> checkpoint_tensors(const Parameters& parameters, const Optimizer* optimizer,
                                                 const TrainTask* task = nullptr);

// The weights to use for inference: the averaged ones if the checkpoint has them. load() fills the
// master weights, as with checkpoint_tensors().
std::vector<CheckpointTensor> weights_to_use(const Parameters& parameters, const CheckpointReader& reader);

}  // namespace axonn
