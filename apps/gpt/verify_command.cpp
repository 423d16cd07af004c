#include <CLI/CLI.hpp>

#include <axonn/train/tasks/made_up_tokens.hpp>
#include <axonn/train/program/verification_run.hpp>

#include "commands.hpp"
#include "gpt_options.hpp"

namespace {

class VerifyCommand : public axonn::Command {
 public:
  VerifyCommand() {  // seconds on one core
    options_.model = {.layers = 2, .hidden = 48, .heads = 12, .sequence = 16, .vocabulary = 101};
    options_.run.dtype = at::kDouble;
    options_.run.train.batch = 48;
    options_.run.train.steps = 5;
    options_.run.train.learning_rate = axonn::VerificationOptions().learning_rate;
    options_.bind(table_);
  }

  std::string name() const override { return "verify"; }
  std::string help() const override { return "compare a grid with one rank, tensor by tensor"; }

  void add_flags(CLI::App& app) override {
    table_.add_flags(app, {"model", "run.grid", "run.order", "run.dtype", "run.device", "run.seed", "overlap", "train.steps", "train.batch",
                           "train.optimizer", "train.learning_rate", "train.clip"});
    app.add_option("--config", config_, "TOML file with the same keys");
    app.add_option("--micro-batches", verification_.micro_batches, "forwards a step");
  }

  std::optional<int> prepare(char** argv) override {
    if (!config_.empty()) table_.read_toml_file(config_);
    options_.apply_preset(table_);
    options_.check();
    return verification_.prepare(argv);
  }

  int run(axonn::Environment& environment) override {
    options_.check_memory(environment.local_ranks());
    return verification_.run(environment, "gpt verify",
                             axonn::gpt_on_made_up_tokens(options_.whole_model(), static_cast<uint64_t>(options_.run.train.seed)));
  }

 private:
  GptOptions options_;
  axonn::OptionTable table_;
  std::string config_;
  axonn::VerificationRun verification_{.options = options_.run};
};

}  // namespace

std::unique_ptr<axonn::Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }
