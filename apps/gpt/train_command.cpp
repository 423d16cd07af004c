#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <CLI/CLI.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/model/gpt_model.hpp>
#include <axonn/train/checkpoint.hpp>
#include <axonn/train/dry_run.hpp>
#include <axonn/train/gpt_task.hpp>
#include <axonn/train/resume.hpp>
#include <axonn/train/text_data.hpp>
#include <axonn/train/together.hpp>
#include <axonn/train/training_run.hpp>

#include "commands.hpp"
#include "gpt_options.hpp"

namespace {

// A run that goes on keeps them.
constexpr std::array<std::string_view, 13> kKept = {"model", "layers", "hidden",   "heads",     "sequence",
                                                    "vocab", "tied",   "dtype",    "tokenizer", "validation_fraction",
                                                    "seed",  "batch",  "optimizer"};

// All blocks are laid out alike.
bool is_first_of_its_kind(std::string_view name) { return !name.starts_with("h.") || name.starts_with("h.0."); }

class TrainCommand : public axonn::Command {
 public:
  TrainCommand() { options_.bind(table_); }

  std::string name() const override { return "train"; }
  std::string help() const override { return "train on text (the default)"; }

  void add_flags(CLI::App& app) override {
    table_.add_flags(app);
    app.add_option("--config", config_, "TOML file with the same keys");
    app.add_option("--resume", resume_, "run directory or checkpoint to go on from");
    app.add_flag("--dry-run", dry_run_, "print shard shapes, arenas and predicted memory; start nothing");
  }

  std::optional<int> prepare(char**) override {
    if (!config_.empty()) table_.read_toml_file(config_);
    options_.apply_preset(table_);
    if (resume_.empty() || dry_run_) options_.check();  // otherwise the checkpoint has a say
    if (!dry_run_) return std::nullopt;
    print_plan();
    return 0;
  }

  int run(axonn::Environment& environment) override {
    std::optional<axonn::CheckpointReader> resumed;
    std::optional<axonn::TextData> data;
    axonn::succeed_together(environment.world(), [&] {
      if (!resume_.empty()) resumed.emplace(resume_);
      if (resumed) take_over(*resumed);
      options_.run.check_ranks(environment.ranks());
      axonn::check_out(options_.run.train.out, resumed);
      data = load_data(resumed);
      if (options_.model.vocabulary == 0) options_.model.vocabulary = data->tokenizer().vocabulary_size();
      options_.check();
      options_.check_memory(environment.local_ranks());
    });
    if (axonn::nothing_to_do(environment, options_.run, resumed)) return 0;

    axonn::Context context(environment, options_.run.shape(), axonn::choose_context(environment, options_.run, resumed));
    axonn::Gpt model(context, options_.model);
    const auto seed = static_cast<uint64_t>(options_.run.train.seed);
    const axonn::Parameters parameters = context.materialize(model, seed);
    axonn::GptTask task(context, model, *data, seed, options_.run.train.rows(context.shape()));
    axonn::run_training(environment, context, parameters, task, options_.run,
                        {.title = "gpt " + axonn::with_unit(static_cast<double>(parameters.global_numel())) + " parameters",
                         .data = data_text(*data),
                         .configuration = table_.to_json(),
                         .tokenizer = data->tokenizer().to_json(),
                         .fingerprint = data->fingerprint()},
                        resumed);
    return 0;
  }

 private:
  void take_over(const axonn::CheckpointReader& reader) {
    GptOptions saved;
    axonn::OptionTable saved_table;
    saved.bind(saved_table);
    axonn::take_over(table_, saved_table, reader, kKept, options_.run.train.out);
  }

  axonn::TextData load_data(const std::optional<axonn::CheckpointReader>& resumed) const {
    const auto& paths = options_.data;
    AXONN_CHECK(!paths.empty(), "gpt.train", "name the text to train on with --data PATH...");
    if (!resumed) return axonn::TextData::load(paths, options_.tokenizer, options_.validation_fraction);
    auto data = axonn::TextData::load(paths, axonn::Tokenizer::from_json(resumed->state().tokenizer), options_.validation_fraction);
    axonn::check_same_data(*resumed, data.fingerprint());
    return data;
  }

  // The last parts of the paths, for the first line.
  std::string data_text(const axonn::TextData& data) const {
    std::string names;
    for (const auto& path : options_.data) {
      const auto name = std::filesystem::path(path).filename().string();
      names += (names.empty() ? "" : " ") + (name.empty() ? path : name);
    }
    const auto tokens = static_cast<double>(data.train_tokens() + data.validation_tokens());
    return names + ": " + axonn::with_unit(tokens) + " tokens";
  }

  void print_plan() const {
    const axonn::GptConfig config = options_.whole_model();
    axonn::Context context = axonn::Context::plan(options_.run.shape(), options_.run.context());
    axonn::Gpt model(context, config);
    const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(options_.run.train.seed));
    const std::string others = config.layers < 2    ? ""
                               : config.layers == 2 ? "h.1: as h.0"
                                                    : axonn::detail::concatenate("h.1 .. h.", config.layers - 1, ": as h.0");
    axonn::print_dry_run(context, parameters, options_.run,
                         {.samples = "sequences", .shown = is_first_of_its_kind, .others = others, .memory = options_.predict()});
  }

  GptOptions options_;
  axonn::OptionTable table_;
  std::string config_, resume_;
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<axonn::Command> make_train_command() { return std::make_unique<TrainCommand>(); }
