#include <axonn/model/gpt/made_up_tokens.hpp>
#include <axonn/program/verification_command.hpp>

#include "commands.hpp"
#include "gpt_options.hpp"

namespace {

class VerifyCommand : BoundGptOptions, public axonn::VerificationCommand {
 public:
  VerifyCommand() : VerificationCommand(options.run, table, {"model"}, "gpt") {  // seconds on one core
    options.model = {.layers = 2, .hidden = 48, .heads = 12, .sequence = 16, .vocabulary = 101};
    options.run.train.batch = 48;
  }

 private:
  void apply_preset() override { options.apply_preset(table); }
  void check() const override { options.check(); }
  void check_memory(int local_ranks) const override { options.check_memory(local_ranks); }
  axonn::MakeNetwork network() const override {
    return axonn::gpt_on_made_up_tokens(options.whole_model(), static_cast<uint64_t>(options.run.train.seed));
  }
};

}  // namespace

std::unique_ptr<axonn::Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }
