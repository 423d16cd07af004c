#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/config/option_table.hpp"
#include "axonn/perfmodel/search/grid_search.hpp"
#include "axonn/program/program.hpp"
#include "axonn/program/run_options.hpp"
#include "axonn/train/trainer.hpp"

namespace axonn {

// The subcommand `train` of every program: --config, --resume, --dry-run, --grid auto, and the order in which a run is checked, loaded and
// started. A program says what its model and data are.
class TrainingCommand : public Command {
 public:
  std::string name() const override { return "train"; }
  void add_flags(CLI::App& app) override;
  std::optional<int> prepare(char** argv) override;
  int run(Environment& environment) override;

 protected:
  // `options` are bound to `table`; both outlive the command. `kept`: keys that a run which goes on keeps.
  TrainingCommand(RunOptions& options, OptionTable& table, std::vector<std::string_view> kept)
      : run_options_(options), table_(table), kept_(std::move(kept)) {}

  // Before a rank is started, and again when a checkpoint, the data or the planner have had their say.
  virtual void apply_preset() = 0;
  virtual void check() const = 0;  // throws UserError
  virtual void check_memory(int local_ranks) const = 0;
  virtual void print_plan() const = 0;  // --dry-run

  // For --grid auto.
  virtual NetworkModel network() const = 0;
  virtual int64_t& checkpoint_every() = 0;  // of the model: the planner chooses it too unless somebody did

  // On every rank, without communication; UserError. `resumed` is null unless a run goes on.
  virtual void load_data(const CheckpointReader* resumed) = 0;
  // Makes the network and its task, and calls run_training().
  virtual void train(Environment& environment, Context& context, const std::optional<CheckpointReader>& resumed) = 0;

 private:
  bool chooses_grid() const { return run_options_.grid == "auto"; }
  void check_before_start();
  Checkpointing checkpointing();

  RunOptions& run_options_;
  OptionTable& table_;
  std::vector<std::string_view> kept_;
  std::string config_, resume_;
  bool dry_run_ = false;
};

}  // namespace axonn
