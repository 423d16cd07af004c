#pragma once

#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/optim/optimizer.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

// Weights, optimizer state and what the task keeps, as checkpoint tensors of this rank.
std::vector<CheckpointTensor> checkpoint_tensors(const Parameters& parameters, const Optimizer* optimizer, const TrainTask* task = nullptr);

// The weights to compute with when nothing is trained on: the averaged ones where the checkpoint has them. As checkpoint_tensors: load()
// fills the master weights.
std::vector<CheckpointTensor> weights_to_use(const Parameters& parameters, const CheckpointReader& reader);

}  // namespace axonn
