#pragma once

#include <optional>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/program/run_plan.hpp"
#include "axonn/train/task.hpp"
#include "axonn/train/trainer.hpp"

namespace axonn {

// What a program does around train(), whatever it trains. Every rank calls each of them.

// The options with which the Context of this run is made: products are multiplied as before when the run goes on and can, otherwise as
// measured now.
ContextOptions choose_context(Environment& environment, const RunPlan& plan, const std::optional<CheckpointReader>& resumed);

// Says so on rank 0 and returns true when the run that goes on has all its steps already.
bool nothing_to_do(const Environment& environment, const RunPlan& plan, const std::optional<CheckpointReader>& resumed);

// Loads the weights of a checkpoint, the averaged ones where it has them; for a program that asks a trained network.
void load_weights(Environment& environment, Context& context, const Parameters& parameters, const CheckpointReader& reader);

// Makes the optimizer, loads a checkpoint if the run goes on, trains until the last step or a signal (SIGINT, SIGTERM, SIGUSR1; a second
// one ends the process), and reports on rank 0. `identity` lacks what a checkpoint or this run brings: run, choices, loss scale.
void run_training(Environment& environment, Context& context, const Parameters& parameters, TrainTask& task, const RunPlan& plan,
                  RunIdentity identity, const std::optional<CheckpointReader>& resumed);

}  // namespace axonn
