#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/config/option_table.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/program/program.hpp"
#include "axonn/program/program_options.hpp"

namespace axonn {

// A trained model: a checkpoint, or what a subclass of CheckpointCommand opens.
class TrainedModel {
 public:
  virtual ~TrainedModel() = default;
  virtual const CheckpointState* state() const { return nullptr; }  // null: it is no checkpoint
  virtual const std::filesystem::path& directory() const = 0;       // the checkpoint's, or the model's
  // Fills the weights. Every rank calls it.
  virtual void load(Context& context, const Parameters& parameters) const = 0;
};

// A subcommand that uses a trained model: MODEL, or --checkpoint as it was called. It has the grid,
// order, device and type for this run, which may differ from those of training. A subclass provides
// the model and its use.
class CheckpointCommand : public Command {
 public:
  void add_flags(CLI::App& app) override;
  std::optional<int> prepare(char** argv) override;
  int run(Environment& environment) override;

 protected:
  // `saved` receives the checkpoint's configuration, and must outlive the command.
  explicit CheckpointCommand(ProgramOptions& saved);

  OptionTable& flags() { return flags_; }  // for flags of the subclass

  virtual void check_flags() const = 0;  // throws UserError, before the job starts
  // A model at `path` that is no checkpoint of ours, with its sizes put into `saved`; null: it is
  // one. Called on every rank, without communication.
  virtual std::unique_ptr<TrainedModel> open_other(const std::string& /*path*/) { return nullptr; }
  // Called on every rank when `saved` holds the model's configuration. Applies presets; UserError
  // for a model that does not fit the grid.
  virtual void check_model(const TrainedModel& model, const GridShape& grid) = 0;
  // Creates the network, calls load(), and uses it.
  virtual void use(Environment& environment, Context& context, const TrainedModel& model) = 0;

  // Gives the network the weights of the model, to compute with: without gradients or master
  // weights. Every rank calls it.
  void load(Context& context, torch::nn::Module& network, const TrainedModel& model) const;

 private:
  std::unique_ptr<TrainedModel> open(Environment& environment);

  ProgramOptions& saved_;
  PlacementOptions placement_;
  NumericsOptions numerics_;
  CommunicationOptions communication_;
  OptionTable here_, flags_;
  std::string model_, checkpoint_;
};

}  // namespace axonn
