#pragma once

#include <optional>
#include <string>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/config/option_table.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/program/program.hpp"
#include "axonn/program/program_options.hpp"

namespace axonn {

// A subcommand that uses a trained model. It has --checkpoint, and the grid, order and device for
// this run, which may differ from those of training. A subclass provides the model and its use.
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
  // Called on every rank when `saved` holds the checkpoint's configuration. Applies presets;
  // UserError for a model that does not fit the grid.
  virtual void check_model(const CheckpointReader& checkpoint, const GridShape& grid) = 0;
  // Creates the model, calls load(), and uses the model.
  virtual void use(Environment& environment, Context& context, const CheckpointReader& checkpoint) = 0;

  // Returns the model's parameters with the weights of the checkpoint. Every rank calls it.
  Parameters load(Context& context, torch::nn::Module& model, const CheckpointReader& checkpoint) const;

 private:
  ProgramOptions& saved_;
  PlacementOptions placement_;
  NumericsOptions numerics_;
  CommunicationOptions communication_;
  OptionTable here_, flags_;
  std::string checkpoint_;
};

}  // namespace axonn
