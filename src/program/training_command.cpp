#include "axonn/program/training_command.hpp"

#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <c10/util/ScopeExit.h>

#include "axonn/checkpoint/history.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/comm/each_reads.hpp"
#include "axonn/comm/same_file.hpp"
#include "axonn/comm/same_settings.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/standard_streams.hpp"
#include "axonn/program/dry_run.hpp"
#include "axonn/program/resume.hpp"
#include "axonn/program/training_run.hpp"
#include "program/choose_grid.hpp"
#include "program/choose_reduction.hpp"
#include "program/run_lock.hpp"
#include "program/ranks/same_options.hpp"

namespace axonn {
namespace {

// Options that a resumed run may change, and that change its numbers.
void say_what_is_other(const OptionTable& table, const CheckpointReader& resumed) {
  for (const auto& [key, flag, effect] :
       {std::tuple("kernels", "--kernels ", ": on a GPU results differ in rounding"),
        {"learning_rate_schedule", "--learning-rate-schedule ", ": the rate goes on by the new one"}})
    if (const auto other = table.first_difference(resumed.state().configuration, std::vector<std::string>{key}))
      log::warn("resumed with ", flag, other->mine, ", ", resumed.directory().string(), " was trained with ",
                other->theirs, effect);
}

// The rate of a run that has begun to fall may go up again if it gets more steps.
void say_if_rate_rises(const OptionTable& table, const TrainConfig& config, const CheckpointReader& resumed) {
  const auto other = table.first_difference(resumed.state().configuration, std::vector<std::string>{"steps"});
  if (!other) return;
  TrainConfig before = config;
  const char* const end = other->theirs.data() + other->theirs.size();
  if (std::from_chars(other->theirs.data(), end, before.steps).ec != std::errc()) return;
  const int64_t step = resumed.state().step;
  const double was = before.learning_rate().at(step), is = config.learning_rate().at(step);
  if (is > was)
    log::warn("resumed with --steps ", other->mine, ", ", resumed.directory().string(), " was trained with ",
              other->theirs, ": the learning rate goes up again, from ", was, " to ", is);
}

}  // namespace

void TrainingCommand::add_flags(CLI::App& app) {
  options_.table.add_flags(app);
  app.add_option("--config", config_, "TOML file with the same keys");
  app.add_option("--resume", resume_, "run directory or checkpoint to resume; auto: the newest of --out, if any");
  app.add_option("--max-restarts", max_restarts_,
                 "with --ranks and --resume auto: start again so often after the death of a rank");
  app.add_flag("--dry-run", dry_run_, "print shard shapes, arenas, the batch and the memory, without training");
}

std::optional<int> TrainingCommand::prepare(char**) {
  if (!config_.empty()) options_.table.read_toml_file(config_);
  options_.apply_preset();
  if (dry_run_) {
    AXONN_CHECK(options_.run.placement.grid, "program.dry_run",
                "--grid auto is chosen for the ranks of a job; axonn-config ranks grids for any number of them");
    options_.settle();
    const RunPlan plan = plan_run(options_.run);
    options_.check(plan.grid);
    std::optional<Machine> machine;
    if (!options_.run.placement.machine.empty()) machine = find_machine(options_.run.placement.machine);
    print_plan(plan);
    print_memory_fit(plan, memory(), machine);
    return 0;
  }
  AXONN_CHECK(max_restarts_ >= 0, "program.restarts", "--max-restarts must be at least 0, got ", max_restarts_);
  AXONN_CHECK(max_restarts_ == 0 || resume_ == "auto", "program.restarts",
              "--max-restarts needs --resume auto, so that a restart goes on from the newest checkpoint");
  if (resume_.empty()) check_before_start();  // otherwise the checkpoint provides options
  return std::nullopt;
}

Restarts TrainingCommand::restarts() const {
  return {.most = max_restarts_, .reached = [out = options_.run.train.out] {
            const std::vector<CheckpointStep> steps = history_in(out);
            return steps.empty() ? std::string() : steps.back().directory.string();
          }};
}

// Checks that are possible before the number of ranks is known. For a grid that is not chosen yet,
// it checks one rank.
void TrainingCommand::check_before_start() {
  options_.settle();
  check_run(options_.run);
  options_.check(options_.run.placement.grid.value_or(GridShape()));
  if (options_.run.placement.grid) plan_run(options_.run);
}

Checkpointing TrainingCommand::checkpointing() {
  if (options_.table.source("activation_checkpoint") == OptionTable::Source::fallback) return Checkpointing::automatic;
  return checkpoint_every() > 0 ? Checkpointing::on : Checkpointing::off;
}

RankMemory TrainingCommand::memory() {
  const auto bytes = [this](const RunPlan& plan) { return options_.predict(plan).total_bytes(); };
  RankMemory memory{.bytes = bytes,
                    .flag_for_rows = [](int64_t rows) { return "--micro-batch " + std::to_string(rows); }};
  if (checkpoint_every() == 1) return memory;
  memory.checkpointed_bytes = [this, bytes](const RunPlan& plan) {
    const int64_t chosen = std::exchange(checkpoint_every(), 1);
    const int64_t needed = bytes(plan);
    checkpoint_every() = chosen;
    return needed;
  };
  return memory;
}

// Stores the planner's choices for this number of ranks in the options, so that a resumed run has
// them too.
std::optional<PlannedLayout> TrainingCommand::choose(int ranks) {
  RunOptions& run = options_.run;
  std::optional<PlannedLayout> chosen;
  if (!run.placement.grid) {
    chosen = choose_grid(run, network(), checkpointing(), ranks);
    run.placement.grid = chosen->grid;
    run.placement.order = chosen->order.value_or(kDefaultOrder);
    if (run.train.micro_batch == 0) run.train.micro_batch = chosen->micro_batch;
    if (checkpointing() == Checkpointing::automatic) checkpoint_every() = chosen->checkpoint() ? 1 : 0;
    ForwardSchedule& forward = run.communication.forward;
    if (forward.attention_rows == AttentionRows::automatic)
      forward.attention_rows = chosen->attention_rows ? AttentionRows::on : AttentionRows::off;
    forward.context = chosen->context.ranks;
    if (forward.norm_rows == NormRows::automatic) forward.norm_rows = chosen->norm_rows ? NormRows::on : NormRows::off;
  }
  check_ranks(*run.placement.grid, ranks);
  if (!run.communication.reduction)
    run.communication.reduction = choose_reduction(run.placement.machine, run.communication.overlap.bucket_bytes,
                                                   Grid(*run.placement.grid, run.placement.order));
  return chosen;
}

int TrainingCommand::run(Environment& environment) {
  outlive_closed_pipes();
  check_same_settings(environment.world(), {{"--resume", resume_}});
  check_same_options(environment.world(), options_.table);
  const bool automatic = resume_ == "auto";
  std::unique_ptr<RunLock> lock;
  if (automatic) lock = lock_run(environment, options_.run.train.out);  // the newest checkpoint stays the newest one
  std::optional<CheckpointReader> resumed;
  if (automatic)
    resumed = newest_whole_checkpoint(environment.world(), options_.run.train.out);
  else if (!resume_.empty())
    resumed.emplace(environment.world(), resume_);
  const std::string directory = resumed ? run_directory(environment.world(), *resumed) : "";
  std::optional<PlannedLayout> chosen;
  std::optional<const RunPlan> plan;
  all_ranks_or_none(environment.world(), [&] {
    if (resumed) {
      resume_options(options_.table, *resumed, kept_, directory, options_.run.train.out);
      say_what_is_other(options_.table, *resumed);
      options_.apply_preset();
    }
    if (environment.rank() == 0) check_out(options_.run.train.out, resumed, automatic);
    check_before_start();
    if (options_.run.placement.grid) check_ranks(*options_.run.placement.grid, environment.ranks());
  });
  const std::string& program = options_.run.train.optimizer.file;
  if (!program.empty()) check_same_file(environment.world(), {program, "optimizer's program", "--optimizer"});
  if (!automatic) lock = lock_run(environment, options_.run.train.out);
  const auto release = c10::make_scope_exit([this] { release_data(); });
  const LoadedData data = load_data(environment, resumed ? &*resumed : nullptr);
  check_ranks_read_the_same(environment.world(), data);
  each_rank_reads(environment.world(), [&] {  // the file of --machine
    if (resumed) check_same_data(*resumed, data.fingerprint);
    chosen = choose(environment.ranks());
  });
  all_ranks_or_none(environment.world(), [&] {
    plan.emplace(plan_run(options_.run));
    options_.check(plan->grid);
    check_memory(*plan, memory(), environment.local_rank(), environment.local_ranks());
  });
  all_ranks_or_none(environment.world(), [&] {
    if (environment.rank() != 0) return;
    if (resumed && !automatic) check_still_newest(*resumed, resume_);
    if (automatic && !resumed) keep_lost_metrics(options_.run.train.out);
  });
  if (nothing_to_do(environment, *plan, resumed)) return 0;
  if (resumed) say_if_rate_rises(options_.table, plan->train, *resumed);
  if (chosen && environment.rank() == 0)
    std::printf("%s\n", chosen_grid_text(*chosen, options_.run.placement.machine).c_str());
  Context context(environment, plan->grid, choose_context(environment, *plan, convolutions(*plan), resumed));
  train(environment, context, *plan, resumed);
  return 0;
}

}  // namespace axonn
