#include <cstdio>
#include <filesystem>
#include <optional>

#include <CLI/CLI.hpp>

#include <axonn/core/error.hpp>
#include <axonn/model/gpt_model.hpp>
#include <axonn/train/checkpoint/checkpoint.hpp>
#include <axonn/train/tasks/gpt_task.hpp>
#include <axonn/train/together.hpp>
#include <axonn/train/program/training_run.hpp>

#include "commands.hpp"
#include "gpt_options.hpp"

namespace {

class GenerateCommand : public axonn::Command {
 public:
  GenerateCommand() {
    options_.bind(table_);
    sampling_table_.add("generate", "checkpoint", checkpoint_, "run directory (its newest checkpoint) or one checkpoint");
    sampling_table_.add("generate", "prompt", prompt_, "text to go on from; empty: a line break");
    sampling_table_.add("generate", "tokens", sampling_.tokens, "how many to add");
    sampling_table_.add("generate", "temperature", sampling_.temperature, "0: always the likeliest token");
    sampling_table_.add("generate", "top_k", sampling_.top_k, "draw from so many of the likeliest tokens; 0: from all");
    sampling_table_.add("generate", "sampling_seed", sampling_seed_, "of the draws");
  }

  std::string name() const override { return "generate"; }
  std::string help() const override { return "write text with a trained model"; }

  void add_flags(CLI::App& app) override {
    sampling_table_.add_flags(app);
    table_.add_flags(app, {"run.grid", "run.order", "run.device"});
  }

  std::optional<int> prepare(char**) override {
    AXONN_CHECK(!checkpoint_.empty(), "gpt.generate", "name the checkpoint or the run's directory with --checkpoint");
    AXONN_CHECK(sampling_.tokens >= 0 && sampling_.temperature >= 0 && sampling_.top_k >= 0 && sampling_seed_ >= 0, "gpt.generate",
                "--tokens, --temperature, --top-k and --sampling-seed must not be negative");
    axonn::parse_axis_order(options_.run.order);
    options_.run.shape();
    return std::nullopt;
  }

  int run(axonn::Environment& environment) override {
    const axonn::RunOptions& here = options_.run;
    here.check_ranks(environment.ranks());
    std::optional<axonn::CheckpointReader> reader;
    GptOptions saved;
    axonn::OptionTable table;
    saved.bind(table);
    std::vector<int32_t> prompt;
    axonn::succeed_together(environment.world(), [&] {
      reader.emplace(checkpoint_);
      table.read_json(reader->state().configuration, (reader->directory() / "manifest.json").string());
      axonn::check_gpt(saved.model, here.shape());
      prompt = axonn::Tokenizer::from_json(reader->state().tokenizer).encode(prompt_.empty() ? "\n" : prompt_);
    });
    const axonn::Tokenizer tokenizer = axonn::Tokenizer::from_json(reader->state().tokenizer);

    auto context_options = here.context();
    context_options.dtype = saved.run.dtype;
    axonn::Context context(environment, here.shape(), context_options);
    axonn::Gpt model(context, saved.model);
    const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(saved.run.train.seed));
    axonn::load_weights(environment, context, parameters, *reader);

    axonn::SamplingOptions sampling = sampling_;
    sampling.vocabulary = tokenizer.vocabulary_size();
    sampling.seed = static_cast<uint64_t>(sampling_seed_);
    const auto text = axonn::sample_text(context, model, prompt, sampling);
    if (environment.rank() == 0) std::printf("%s\n", tokenizer.decode(text).c_str());
    return 0;
  }

 private:
  GptOptions options_;
  axonn::OptionTable table_;
  axonn::SamplingOptions sampling_;
  axonn::OptionTable sampling_table_;
  int64_t sampling_seed_ = 1;
  std::string checkpoint_, prompt_;
};

}  // namespace

std::unique_ptr<axonn::Command> make_generate_command() { return std::make_unique<GenerateCommand>(); }
