#include <axonn/tasks/text/synthetic_tokens.hpp>
#include <axonn/program/verification_command.hpp>

#include "commands.hpp"
#include "gpt_options.hpp"

namespace {

class VerifyCommand : axonn::HoldsOptions<GptOptions>, public axonn::VerificationCommand {
 public:
  VerifyCommand() : VerificationCommand(options, {"model", "lora"}, "gpt") {  // takes seconds on one core
    options.model.shape = {.layers = 2, .hidden = 48, .heads = 12, .sequence = 16, .vocabulary = 101};
    options.run.train.batch = 48;
  }

 private:
  axonn::MakeNetwork network(const axonn::RunPlan& plan) const override {
    return axonn::decoder_on_synthetic_tokens(options.whole_model(), static_cast<uint64_t>(plan.train.seed));
  }
};

}  // namespace

std::unique_ptr<axonn::Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }
