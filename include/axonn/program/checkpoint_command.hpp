#pragma once

#include <optional>
#include <string>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/config/option_table.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/program/program.hpp"
#include "axonn/program/program_options.hpp"

namespace axonn {

// A subcommand that uses a trained model: --checkpoint, and the grid, order and device on which it lies here, whatever those of the training
// were. A program says what its model is and what is done with it.
class CheckpointCommand : public Command {
 public:
  void add_flags(CLI::App& app) override;
  std::optional<int> prepare(char** argv) override;
  int run(Environment& environment) override;

 protected:
  // `saved` take the checkpoint's configuration; they outlive the command.
  explicit CheckpointCommand(ProgramOptions& saved);

  OptionTable& flags() { return flags_; }  // where a command binds its own

  virtual void check_flags() const = 0;  // UserError, before anything is started
  // On every rank, when `saved` holds the checkpoint's configuration: presets, and UserError for a model that does not fit the grid.
  virtual void check_model(const CheckpointReader& checkpoint, const GridShape& grid) = 0;
  // Makes the model, calls load(), and uses it.
  virtual void use(Environment& environment, Context& context, const CheckpointReader& checkpoint) = 0;

  // The model's parameters with the checkpoint's weights; every rank calls it.
  Parameters load(Environment& environment, Context& context, torch::nn::Module& model, const CheckpointReader& checkpoint) const;

 private:
  ProgramOptions& saved_;
  PlacementOptions placement_;
  NumericsOptions numerics_;
  OptionTable here_, flags_;
  std::string checkpoint_;
};

}  // namespace axonn
