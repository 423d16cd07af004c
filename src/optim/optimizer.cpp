#include "axonn/optim/optimizer.hpp"

#include <cmath>

#include <ATen/core/grad_mode.h>

#include "axonn/core/error.hpp"

namespace axonn {

Optimizer::Optimizer(const UpdatedNetwork& network, double learning_rate, double average_decay)
    : network_(network), learning_rate_(learning_rate), average_decay_(average_decay) {
  AXONN_CHECK(arena().has_gradients(), "optim.optimizer",
              "these parameters have no gradients, because they are frozen or only compute; give those that "
              "materialize() trains");
}

void Optimizer::prepare(double learning_rate) {
  scheduler().check_open();
  const at::NoGradGuard no_grad;
  prepare_update(rate(learning_rate));
}

void Optimizer::stage(double learning_rate) {
  AXONN_CHECK(runs_ahead(), "optim.optimizer",
              "only AdamW on a GPU reads the numbers of an update there; call step() without `staged`");
  const at::NoGradGuard no_grad;
  ++steps_taken_;
  stage_update(rate(learning_rate));
}

UpdateReport Optimizer::step(UpdateOptions options) {
  scheduler().check_open();
  AXONN_CHECK(!scheduler().in_step(), "optim.optimizer",
              "the step has not been finished; call step.finish() before optimizer.step()");
  const std::string without = schedule().without_gradient();
  AXONN_CHECK(without.empty(), "optim.optimizer", "'", without,
              "' has no gradient; run forward, backward and step.finish() first");
  AXONN_ASSERT(!average_in_use_, "weights were updated while their average stood in for them");
  AXONN_CHECK(!options.accept || keeps_gradients(), "optim.optimizer",
              "schedule fuse without clipping has changed weights before the norm is known; clip, or choose "
              "rs-opt-ag to refuse updates");
  AXONN_CHECK(!options.loss.defined() || (runs_ahead() && !options.accept), "optim.optimizer",
              "only AdamW on a GPU updates without a wait of the host, and without `accept`; give `poisoned` in the "
              "place of `loss`");
  AXONN_CHECK(options.loss.defined() || !options.staged, "optim.optimizer",
              "an update with `staged` needs `loss`, a number on the device");
  const at::NoGradGuard no_grad;
  if (options.loss.defined()) {
    if (!options.staged) ++steps_taken_;
    return {.norm = update_ahead(rate(options.learning_rate), options)};
  }
  UpdateReport report{.gradient_norm = gradient_norm(rate(options.learning_rate), options)};
  if (!std::isfinite(report.gradient_norm)) return report;
  if (options.accept && !options.accept(report.gradient_norm)) return report;
  ++steps_taken_;
  update(rate(options.learning_rate), options, report.gradient_norm);
  report.applied = true;
  return report;
}

Optimizer::AverageInUse::AverageInUse(Optimizer& optimizer) : optimizer_(optimizer) {
  if (!optimizer_.keeps_average()) return;
  optimizer_.scheduler().check_open();
  AXONN_ASSERT(!optimizer_.average_in_use_, "the average stands in for the weights already");
  const at::NoGradGuard no_grad;
  optimizer_.exchange_average();
  optimizer_.average_in_use_ = true;
}

Optimizer::AverageInUse::~AverageInUse() {
  if (!optimizer_.keeps_average()) return;
  const at::NoGradGuard no_grad;
  try {
    optimizer_.exchange_average();
    optimizer_.average_in_use_ = false;
  } catch (const BackendError&) {
    // A collective has failed: every later one fails too, so nobody goes on with these weights.
  }
}

std::vector<OptimizerState> Optimizer::state() const {
  schedule().wait_for_weights();
  return tensors();
}

}  // namespace axonn
