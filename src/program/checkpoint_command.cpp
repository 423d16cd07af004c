#include "axonn/program/checkpoint_command.hpp"

#include <CLI/CLI.hpp>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/program/resume.hpp"
#include "axonn/program/training_run.hpp"

namespace axonn {

CheckpointCommand::CheckpointCommand(ProgramOptions& saved) : saved_(saved) {
  placement_.bind(here_);
  numerics_.bind(here_);
  communication_.bind(here_);
  flags_.add("checkpoint", "checkpoint", checkpoint_, "run directory (its newest checkpoint) or one checkpoint");
}

void CheckpointCommand::add_flags(CLI::App& app) {
  flags_.add_flags(app);
  here_.add_flags(app, {"run.grid", "run.order", "run.device", "run.kernels", "overlap.linear_schedule"});
}

std::optional<int> CheckpointCommand::prepare(char**) {
  constexpr const char* kWhere = "program.checkpoint";
  AXONN_CHECK(!checkpoint_.empty(), kWhere, "name the checkpoint or the run's directory with --checkpoint");
  AXONN_CHECK(placement_.grid, kWhere, "--grid must be a grid here: auto is chosen for a training");
  check_flags();
  return std::nullopt;
}

int CheckpointCommand::run(Environment& environment) {
  const GridShape& grid = *placement_.grid;
  check_ranks(grid, environment.ranks());
  const CheckpointReader checkpoint(environment.world(), checkpoint_);
  all_ranks_or_none(environment.world(), [&] {
    check_same_network(saved_.table, checkpoint);
    saved_.table.read_json(checkpoint.state().configuration, (checkpoint.directory() / "manifest.json").string());
    check_model(checkpoint, grid);
  });
  const bool other_kernels = here_.source("kernels") != OptionTable::Source::fallback;
  Context context(environment, grid,
                  {.dtype = scalar_type(saved_.run.numerics.dtype),
                   .device = numerics_.c10_device(),
                   .kernels = other_kernels ? numerics_.kernels : saved_.run.numerics.kernels,
                   .order = placement_.order,
                   .forward = {.linear = communication_.forward.linear}});
  use(environment, context, checkpoint);
  return 0;
}

Parameters CheckpointCommand::load(Context& context, torch::nn::Module& model,
                                   const CheckpointReader& checkpoint) const {
  Parameters parameters = context.materialize(model, static_cast<uint64_t>(saved_.run.train.seed));
  load_weights(context, parameters, checkpoint);
  return parameters;
}

}  // namespace axonn
