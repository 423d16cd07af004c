#include <filesystem>
#include <optional>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/data/text/text_data.hpp>
#include <axonn/model/gpt/model.hpp>
#include <axonn/model/gpt/task.hpp>
#include <axonn/network/gpt/gpt_network.hpp>
#include <axonn/program/dry_run.hpp>
#include <axonn/program/resume.hpp>
#include <axonn/program/training_command.hpp>
#include <axonn/program/training_run.hpp>

#include "commands.hpp"
#include "gpt_options.hpp"

namespace {

// All blocks are laid out alike.
bool is_first_of_its_kind(std::string_view name) { return !name.starts_with("h.") || name.starts_with("h.0."); }

class TrainCommand : BoundGptOptions, public axonn::TrainingCommand {
 public:
  TrainCommand()
      : TrainingCommand(options.run, table,
                        {"model", "layers", "hidden", "heads", "sequence", "vocab", "tied", "dtype", "tokenizer", "validation_fraction",
                         "seed", "batch", "optimizer"}) {}
  std::string help() const override { return "train on text (the default)"; }

 private:
  void apply_preset() override { options.apply_preset(table); }
  void check() const override { options.check(); }
  void check_memory(int local_ranks) const override { options.check_memory(local_ranks); }

  void print_plan() const override {
    const axonn::GptConfig config = options.whole_model();
    axonn::Context context = axonn::Context::plan(options.run.shape(), options.run.context());
    axonn::Gpt model(context, config);
    const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(options.run.train.seed));
    const std::string others = config.layers < 2    ? ""
                               : config.layers == 2 ? "h.1: as h.0"
                                                    : axonn::detail::concatenate("h.1 .. h.", config.layers - 1, ": as h.0");
    axonn::print_dry_run(context, parameters, options.run,
                         {.samples = "sequences", .shown = is_first_of_its_kind, .others = others, .memory = options.predict()});
  }

  axonn::NetworkModel network() const override {
    return axonn::gpt_network(options.preset.empty() ? "this network" : options.preset, options.model.shape());
  }
  int64_t& checkpoint_every() override { return options.model.checkpoint_every; }

  void load_data(const axonn::CheckpointReader* resumed) override {
    AXONN_CHECK(!options.data.empty(), "gpt.train", "name the text to train on with --data PATH...");
    data_ = resumed == nullptr
                ? axonn::TextData::load(options.data, options.tokenizer, options.validation_fraction)
                : axonn::TextData::load(options.data, axonn::Tokenizer::from_json(resumed->state().tokenizer), options.validation_fraction);
    if (resumed != nullptr) axonn::check_same_data(*resumed, data_->fingerprint());
    if (options.model.vocabulary == 0) options.model.vocabulary = data_->tokenizer().vocabulary_size();
  }

  void train(axonn::Environment& environment, axonn::Context& context, const std::optional<axonn::CheckpointReader>& resumed) override {
    axonn::Gpt model(context, options.model);
    const auto seed = static_cast<uint64_t>(options.run.train.seed);
    const axonn::Parameters parameters = context.materialize(model, seed);
    axonn::GptTask task(context, model, *data_, seed, options.run.train.rows(context.shape()));
    axonn::run_training(environment, context, parameters, task, options.run,
                        {.title = "gpt " + axonn::with_unit(static_cast<double>(parameters.global_numel())) + " parameters",
                         .data = data_text(),
                         .configuration = table.to_json(),
                         .tokenizer = data_->tokenizer().to_json(),
                         .fingerprint = data_->fingerprint()},
                        resumed);
  }

  // The last parts of the paths, for the first line.
  std::string data_text() const {
    std::string names;
    for (const auto& path : options.data) {
      const auto name = std::filesystem::path(path).filename().string();
      names += (names.empty() ? "" : " ") + (name.empty() ? path : name);
    }
    const auto tokens = static_cast<double>(data_->train_tokens() + data_->validation_tokens());
    return names + ": " + axonn::with_unit(tokens) + " tokens";
  }

  std::optional<axonn::TextData> data_;
};

}  // namespace

std::unique_ptr<axonn::Command> make_train_command() { return std::make_unique<TrainCommand>(); }
