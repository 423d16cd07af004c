#include "axonn/program/training_command.hpp"

#include <cstdio>
#include <utility>

#include <CLI/CLI.hpp>

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/gradient_programs.hpp"
#include "axonn/program/choose_grid.hpp"
#include "axonn/program/choose_reduction.hpp"
#include "axonn/program/resume.hpp"
#include "axonn/program/training_run.hpp"
#include "axonn/train/together.hpp"

namespace axonn {

void TrainingCommand::add_flags(CLI::App& app) {
  table_.add_flags(app);
  app.add_option("--config", config_, "TOML file with the same keys");
  app.add_option("--resume", resume_, "run directory or checkpoint to go on from");
  app.add_flag("--dry-run", dry_run_, "print shard shapes, arenas and the batch; start nothing");
}

std::optional<int> TrainingCommand::prepare(char**) {
  if (!config_.empty()) table_.read_toml_file(config_);
  apply_preset();
  if (dry_run_) {
    AXONN_CHECK(!chooses_grid(), "train.dry_run",
                "--grid auto is chosen for the ranks of a job; axonn-config ranks grids for any number of them");
    check();
    print_plan();
    return 0;
  }
  if (resume_.empty()) check_before_start();  // otherwise the checkpoint has a say
  return std::nullopt;
}

// A grid that is not chosen yet fits whatever one rank does; programs are for the grid that will be.
void TrainingCommand::check_before_start() {
  if (!chooses_grid()) return check();
  const std::string grid = std::exchange(run_options_.grid, GridShape().to_string());
  const std::string reduction = std::exchange(run_options_.reduction, "ring");
  check();
  if (reduction != "auto") parse_gradient_programs(reduction);
  run_options_.grid = grid;
  run_options_.reduction = reduction;
}

Checkpointing TrainingCommand::checkpointing() {
  if (table_.source("activation_checkpoint") == OptionTable::Source::fallback) return Checkpointing::automatic;
  return checkpoint_every() > 0 ? Checkpointing::on : Checkpointing::off;
}

int TrainingCommand::run(Environment& environment) {
  std::optional<CheckpointReader> resumed;
  std::optional<PlannedLayout> chosen;
  succeed_together(environment.world(), [&] {
    if (!resume_.empty()) {
      resumed.emplace(resume_);
      take_over(table_, *resumed, kept_, run_options_.train.out);
      apply_preset();
    }
    check_out(run_options_.train.out, resumed);
    check_before_start();
    load_data(resumed ? &*resumed : nullptr);
    if (chooses_grid()) {
      chosen = choose_grid(run_options_, network(), checkpointing(), environment.ranks());
      if (checkpointing() == Checkpointing::automatic) checkpoint_every() = chosen->checkpoint ? 1 : 0;
    }
    run_options_.check_ranks(environment.ranks());
    if (run_options_.reduction == "auto") choose_reduction(run_options_, Grid(run_options_.shape(), parse_axis_order(run_options_.order)));
    check();
    check_memory(environment.local_ranks());
  });
  if (nothing_to_do(environment, run_options_, resumed)) return 0;
  if (chosen && environment.rank() == 0) std::printf("%s\n", chosen_grid_text(run_options_, *chosen).c_str());
  Context context(environment, run_options_.shape(), choose_context(environment, run_options_, resumed));
  train(environment, context, resumed);
  return 0;
}

}  // namespace axonn
