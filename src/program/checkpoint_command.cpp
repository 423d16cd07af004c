#include "axonn/program/checkpoint_command.hpp"

#include <CLI/CLI.hpp>

#include "axonn/core/error.hpp"
#include "axonn/program/training_run.hpp"
#include "axonn/train/together.hpp"

namespace axonn {

CheckpointCommand::CheckpointCommand(RunOptions& saved, OptionTable& table) : saved_(saved), table_(table) {
  here_.bind(here_table_, "samples");
  flags_.add("checkpoint", "checkpoint", checkpoint_, "run directory (its newest checkpoint) or one checkpoint");
}

void CheckpointCommand::add_flags(CLI::App& app) {
  flags_.add_flags(app);
  here_table_.add_flags(app, {"run.grid", "run.order", "run.device"});
}

std::optional<int> CheckpointCommand::prepare(char**) {
  AXONN_CHECK(!checkpoint_.empty(), "train.checkpoint", "name the checkpoint or the run's directory with --checkpoint");
  check_flags();
  parse_axis_order(here_.order);
  here_.shape();
  return std::nullopt;
}

int CheckpointCommand::run(Environment& environment) {
  here_.check_ranks(environment.ranks());
  std::optional<CheckpointReader> checkpoint;
  succeed_together(environment.world(), [&] {
    checkpoint.emplace(checkpoint_);
    table_.read_json(checkpoint->state().configuration, (checkpoint->directory() / "manifest.json").string());
    check_model(*checkpoint, here_.shape());
  });
  ContextOptions options = here_.context();
  options.dtype = saved_.dtype;
  Context context(environment, here_.shape(), options);
  use(environment, context, *checkpoint);
  return 0;
}

Parameters CheckpointCommand::load(Environment& environment, Context& context, torch::nn::Module& model,
                                   const CheckpointReader& checkpoint) const {
  Parameters parameters = context.materialize(model, static_cast<uint64_t>(saved_.train.seed));
  load_weights(environment, context, parameters, checkpoint);
  return parameters;
}

}  // namespace axonn
