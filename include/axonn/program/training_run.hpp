#pragma once

#include <optional>
#include <span>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/kernels/choice/convolution_choice.hpp"
#include "axonn/program/run_plan.hpp"
#include "axonn/train/task.hpp"
#include "axonn/train/trainer.hpp"

namespace axonn {

// The parts of a program around train(), for any model. Every rank calls each of these functions.

// Returns the options for the Context of this run. A resumed run uses the same matrix product and
// the same kernels of `convolutions` as before if they are available here, and on the same grid the
// same balance of attention. Otherwise they are measured now. If the plan names the product,
// nothing is measured, and convolutions are direct.
ContextOptions choose_context(Environment& environment, const RunPlan& plan,
                              std::span<const ConvolutionShape> convolutions,
                              const std::optional<CheckpointReader>& resumed);

// Returns true if the resumed run has done all its steps already. Then rank 0 prints a message.
bool nothing_to_do(const Environment& environment, const RunPlan& plan, const std::optional<CheckpointReader>& resumed);

// Loads the weights of a checkpoint, the averaged ones if it has them. For programs that use a
// trained network.
void load_weights(Context& context, const Parameters& parameters, const CheckpointReader& reader);

// Creates the optimizer, loads the checkpoint of a resumed run, trains until the last step or a
// signal, and reports on rank 0. The signals are SIGINT, SIGTERM and SIGUSR1; a second one ends the
// process. The caller leaves these fields of `identity` empty: run, choices, loss_scale.
void run_training(Environment& environment, Context& context, const Parameters& parameters, TrainTask& task,
                  const RunPlan& plan, RunIdentity identity, const std::optional<CheckpointReader>& resumed);

}  // namespace axonn
