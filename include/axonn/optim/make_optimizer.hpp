#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "axonn/coconet/plan/run_settings.hpp"
#include "axonn/coconet/update/update_program.hpp"
#include "axonn/optim/optimizer.hpp"
#include "axonn/terms/optimizer_kind.hpp"

namespace axonn {

// NAME=VALUE: a scalar of a program.
struct ScalarSetting {
  std::string name;
  double value = 0;
  bool operator==(const ScalarSetting&) const = default;
};

// Each optimizer reads the settings that it has.
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::adamw;
  std::string file;                             // a program of the user's, in place of `kind`; "": none
  std::optional<UpdateSchedule> schedule = {};  // over the replicas of the network; nothing: schedule_on()
  coconet::RunSettings run = {};                // how it runs; choose_update() measures schedule and run
  double learning_rate = 1e-3;                  // maximum, where a schedule changes it
  double weight_decay = 0.1;                    // only matrices; vectors are never decayed
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.9;  // only sgd_momentum
  // Of the average of the weights, "ema" in state(): average = d average + (1 - d) weights with
  // d = min(ema, (1 + n) / (10 + n)) after update n, so that the first weights are soon forgotten.
  double ema = 0;  // 0: no average
  // Whether step() may clip gradients or undo a factor of the loss. If not, schedule fuse updates
  // weights during backward, and a gradient that is not finite is an error that comes too late.
  bool clips = true;
  std::vector<ScalarSetting> set = {};  // other scalars of the program
};

// The settings above that are scalars of a program, by name.
std::vector<std::pair<std::string, double>> optimizer_scalars(const OptimizerSettings& settings);

// Elements of state, and of temporaries, per weight.
int optimizer_moments(const OptimizerSettings& settings);

// The schedule of these settings. If they name none: ar_opt, unless data ranks share the update on
// CPUs and no reduction programs sum gradients. Then fuse, or rs_opt_ag for a program that would
// update weights before it knows the norm, so that a step with a bad gradient can be skipped.
UpdateSchedule schedule_on(const OptimizerSettings& settings, const GridShape& grid, const ContextOptions& options);

// Throws UserError for an invalid value.
void check_optimizer(const OptimizerSettings& settings);

// Makes the optimizer of settings.file, or else of settings.kind; parse_name<OptimizerKind>()
// gives the kind of a name. On CPUs it is a program. On other devices it is made of LibTorch's
// kernels: then UserError for a file, other scalars or another schedule than ar_opt. Every rank of
// the grid calls it.
std::unique_ptr<Optimizer> make_optimizer(Context& context, const Parameters& parameters,
                                          const OptimizerSettings& settings);

}  // namespace axonn
