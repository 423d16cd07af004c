#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "axonn/layers/context.hpp"

namespace axonn {

// During its lifetime, `model` is in evaluation mode: no autograd, no dropout, and the scheduler is
// in `phase`. The destructor restores the previous state.
class Evaluating {
 public:
  Evaluating(torch::nn::Module& model, Context& context, Phase phase)
      : model_(model), was_training_(model.is_training()), phase_(context.scheduler(), phase) {
    model_.eval();
  }
  ~Evaluating() { model_.train(was_training_); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  torch::nn::Module& model_;
  bool was_training_;
  Scheduler::InPhase phase_;
  at::NoGradGuard no_grad_;
};

}  // namespace axonn
