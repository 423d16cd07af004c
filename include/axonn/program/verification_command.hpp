#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/config/option_table.hpp"
#include "axonn/program/program.hpp"
#include "axonn/program/run_options.hpp"
#include "axonn/train/verification.hpp"

namespace axonn {

// The subcommand `verify` of every program: a grid, an order, a policy against one rank, tensor by tensor, in a table. Without a launcher
// it starts the ranks on this machine as one job. The exit status: 1 when anything differs. A program says what its model is.
class VerificationCommand : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string help() const override { return "compare a grid with one rank, tensor by tensor"; }
  void add_flags(CLI::App& app) override;
  std::optional<int> prepare(char** argv) override;
  int run(Environment& environment) override;

 protected:
  // `options` are bound to `table`, which has the flags of these sections too; both outlive the command. Takes fp64 and a few steps.
  VerificationCommand(RunOptions& options, OptionTable& table, std::vector<std::string_view> sections, std::string program);

  virtual void apply_preset() = 0;
  virtual void check() const = 0;  // throws UserError
  virtual void check_memory(int local_ranks) const = 0;
  virtual MakeNetwork network() const = 0;

 private:
  RunOptions& options_;
  OptionTable& table_;
  std::vector<std::string_view> sections_;
  std::string program_, config_;
  int64_t micro_batches_ = 1;
};

}  // namespace axonn
