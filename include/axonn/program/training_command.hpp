#pragma once

#include <optional>
#include <string>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/config/option_table.hpp"
#include "axonn/kernels/choice/convolution_choice.hpp"
#include "axonn/network/network_model.hpp"
#include "axonn/perfmodel/search/grid_search.hpp"
#include "axonn/program/ranks/loaded_data.hpp"
#include "axonn/program/program.hpp"
#include "axonn/program/program_options.hpp"
#include "axonn/program/run_plan.hpp"

namespace axonn {

// The subcommand `train` of every program: --config, --resume, --dry-run, --grid auto. It checks,
// loads and starts a run in the right order. A subclass provides the model and data.
class TrainingCommand : public Command {
 public:
  std::string name() const override { return "train"; }
  void add_flags(CLI::App& app) override;
  std::optional<int> prepare(char** argv) override;
  void set_verbose(bool verbose) override { options_.run.train.verbose = verbose; }
  Restarts restarts() const override;
  int run(Environment& environment) override;

 protected:
  // `options` must outlive the command. `kept`: keys that a resumed run cannot change.
  TrainingCommand(ProgramOptions& options, std::vector<std::string> kept) : options_(options), kept_(std::move(kept)) {}

  virtual void print_plan(const RunPlan& plan) const = 0;  // --dry-run

  // For --grid auto.
  virtual NetworkModel network() const = 0;
  virtual int64_t& checkpoint_every() = 0;  // option of the model; the planner chooses it unless the user did

  // The convolutions of the network whose kernels are measured.
  virtual std::vector<ConvolutionShape> convolutions(const RunPlan&) const { return {}; }

  // Collective. The job holds the run's directory. UserError on every rank or on none. `resumed` is
  // null for a new run.
  virtual LoadedData load_data(Environment& environment, const CheckpointReader* resumed) = 0;
  // When the run has ended, or does not begin: gives up the data, and what load_data() has written
  // into the directory, unless train() has kept that. Not collective.
  virtual void release_data() {}
  // Creates the network and its task, and calls run_training().
  virtual void train(Environment& environment, Context& context, const RunPlan& plan,
                     const std::optional<CheckpointReader>& resumed) = 0;

 private:
  void check_before_start();
  std::optional<PlannedLayout> choose(int ranks);
  Checkpointing checkpointing();
  RankMemory memory();

  ProgramOptions& options_;
  std::vector<std::string> kept_;
  std::string config_, resume_;
  int max_restarts_ = 0;
  bool dry_run_ = false;
};

}  // namespace axonn
