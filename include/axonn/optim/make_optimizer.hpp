#pragma once

#include <memory>

#include "axonn/optim/optimizer.hpp"
#include "axonn/terms/optimizer_kind.hpp"

namespace axonn {

// Each kind of optimizer reads the settings that it has.
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::adamw;
  double learning_rate = 1e-3;  // maximum, where a schedule changes it
  double weight_decay = 0.1;    // only matrices; vectors are never decayed
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.9;  // only sgd_momentum
};

// Throws UserError for an invalid value.
void check_optimizer(const OptimizerSettings& settings);

// Makes the optimizer of settings.kind; parse_name<OptimizerKind>("adamw", ...) gives the kind of a
// name. Every rank of the grid calls it.
std::unique_ptr<Optimizer> make_optimizer(Context& context, const Parameters& parameters,
                                          const OptimizerSettings& settings);

}  // namespace axonn
