#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <axonn/core/error.hpp>
#include <axonn/model/decoder/model.hpp>
#include <axonn/tasks/text/text_task.hpp>
#include <axonn/program/checkpoint_command.hpp>

#include "commands.hpp"
#include "gpt_options.hpp"

namespace {

class GenerateCommand : axonn::HoldsOptions<GptOptions>, public axonn::CheckpointCommand {
 public:
  GenerateCommand() : CheckpointCommand(options) {
    flags().add("generate", "prompt", prompt_,
                "text to continue; empty: a line break, or the first character of a vocabulary that has none");
    flags().add("generate", "tokens", sampling_.tokens, "number of tokens to add");
    flags().add("generate", "temperature", sampling_.temperature,
                "randomness of the draws; 0: always the most likely token");
    flags().add("generate", "top_k", sampling_.top_k, "draw only from this many most likely tokens; 0: from all");
    flags().add("generate", "sampling_seed", seed_, "seed of the draws");
  }

  std::string name() const override { return "generate"; }
  std::string help() const override { return "write text with a trained model"; }

 private:
  void check_flags() const override {
    AXONN_CHECK(sampling_.tokens >= 0 && sampling_.temperature >= 0 && sampling_.top_k >= 0 && seed_ >= 0,
                "gpt.generate", "--tokens, --temperature, --top-k and --sampling-seed must not be negative");
  }

  void check_model(const axonn::CheckpointReader& checkpoint, const axonn::GridShape& grid) override {
    axonn::check_decoder(options.model, grid);
    tokenizer_ = axonn::Tokenizer::from_json(checkpoint.state().tokenizer);
    begin_ = prompt_.empty() ? tokenizer_->beginning() : tokenizer_->encode(prompt_);
  }

  void use(axonn::Environment& environment, axonn::Context& context,
           const axonn::CheckpointReader& checkpoint) override {
    axonn::Decoder network(context, options.model);
    const axonn::Parameters parameters = load(context, network, checkpoint);
    sampling_.vocabulary = tokenizer_->vocabulary_size();
    sampling_.seed = static_cast<uint64_t>(seed_);
    const auto text = axonn::sample_text(context, network, begin_, sampling_);
    if (environment.rank() == 0) std::printf("%s\n", tokenizer_->decode(text).c_str());
  }

  axonn::SamplingOptions sampling_;
  int64_t seed_ = 1;
  std::string prompt_;
  std::optional<axonn::Tokenizer> tokenizer_;
  std::vector<int32_t> begin_;
};

}  // namespace

std::unique_ptr<axonn::Command> make_generate_command() { return std::make_unique<GenerateCommand>(); }
