#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/program/program.hpp"
#include "axonn/program/program_options.hpp"
#include "axonn/train/verification.hpp"

namespace axonn {

// The subcommand `verify` of every program: compares training with a grid, order and policy against
// one rank, tensor by tensor, in a table. Without a launcher it starts the ranks on this machine as
// one job. The exit status is 1 if anything differs. A subclass provides the model.
class VerificationCommand : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string help() const override { return "compare a grid with one rank, tensor by tensor"; }
  void add_flags(CLI::App& app) override;
  std::optional<int> prepare(char** argv) override;
  int run(Environment& environment) override;

 protected:
  // `options` must outlive the command. Besides the usual flags, the command has those of
  // `sections`. The defaults are fp64 and a few steps.
  VerificationCommand(ProgramOptions& options, std::vector<std::string_view> sections, std::string program);

  virtual MakeNetwork network(const RunPlan& plan) const = 0;

 private:
  ProgramOptions& options_;
  std::vector<std::string_view> sections_;
  std::string program_, config_;
  int64_t micro_batches_ = 1;
  std::optional<const RunPlan> plan_;
};

}  // namespace axonn
