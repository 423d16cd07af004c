#include <array>
#include <optional>

#include <CLI/CLI.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/model/unet_model.hpp>
#include <axonn/train/checkpoint.hpp>
#include <axonn/train/dry_run.hpp>
#include <axonn/train/resume.hpp>
#include <axonn/train/together.hpp>
#include <axonn/train/training_run.hpp>

#include "commands.hpp"
#include "unet_options.hpp"

namespace {

// A run that goes on keeps them.
constexpr std::array<std::string_view, 20> kKept = {
    "model", "image",    "base",   "multipliers", "blocks", "attention", "heads", "groups", "classes",   "scale_shift",
    "times", "schedule", "target", "loss",        "mirror", "dtype",     "seed",  "batch",  "optimizer", "validation_fraction"};

class TrainCommand : public axonn::Command {
 public:
  TrainCommand() { options_.bind(table_); }

  std::string name() const override { return "train"; }
  std::string help() const override { return "train on pictures (the default)"; }

  void add_flags(CLI::App& app) override {
    table_.add_flags(app);
    app.add_option("--config", config_, "TOML file with the same keys");
    app.add_option("--resume", resume_, "run directory or checkpoint to go on from");
    app.add_flag("--dry-run", dry_run_, "print shard shapes and arenas; start nothing");
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
    axonn::PictureSplit pictures;
    axonn::succeed_together(environment.world(), [&] {
      if (!resume_.empty()) resumed.emplace(resume_);
      if (resumed) take_over(*resumed);
      options_.run.check_ranks(environment.ranks());
      axonn::check_out(options_.run.train.out, resumed);
      options_.check();
      pictures = options_.load_pictures();
      if (resumed) axonn::check_same_data(*resumed, pictures.training->fingerprint());
      auto& classes = options_.model.shape.classes;
      if (classes < 0) classes = static_cast<int64_t>(pictures.training->classes().size());
      options_.check();
    });
    if (axonn::nothing_to_do(environment, options_.run, resumed)) return 0;

    axonn::Context context(environment, options_.run.shape(), axonn::choose_context(environment, options_.run, resumed));
    axonn::Unet model(context, options_.model);
    const axonn::Diffusion diffusion(options_.diffusion, context.options().device);
    const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(options_.run.train.seed));
    axonn::UnetTask task(context, model, diffusion, *pictures.training, pictures.held_out.get(), task_options(context));
    axonn::run_training(environment, context, parameters, task, options_.run,
                        {.title = "unet " + axonn::with_unit(static_cast<double>(parameters.global_numel())) + " parameters",
                         .data = pictures.training->description(),
                         .configuration = table_.to_json(),
                         .tokenizer = "null",
                         .fingerprint = pictures.training->fingerprint()},
                        resumed);
    return 0;
  }

 private:
  void take_over(const axonn::CheckpointReader& reader) {
    UnetOptions saved;
    axonn::OptionTable saved_table;
    saved.bind(saved_table);
    axonn::take_over(table_, saved_table, reader, kKept, options_.run.train.out);
    options_.apply_preset(table_);
  }

  axonn::UnetTaskOptions task_options(const axonn::Context& context) const {
    axonn::UnetTaskOptions task = options_.task;
    task.samples = options_.samples;
    task.seed = static_cast<uint64_t>(options_.run.train.seed);
    task.validation_rows = options_.run.train.rows(context.shape());
    return task;
  }

  void print_plan() const {
    axonn::UnetConfig config = options_.model;
    config.shape.classes = std::max<int64_t>(config.shape.classes, 0);
    axonn::Context context = axonn::Context::plan(options_.run.shape(), options_.run.context());
    axonn::Unet model(context, config);
    const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(options_.run.train.seed));
    axonn::print_dry_run(context, parameters, options_.run,
                         {.samples = "pictures", .shown = [](std::string_view) { return true; }, .others = ""});
  }

  UnetOptions options_;
  axonn::OptionTable table_;
  std::string config_, resume_;
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<axonn::Command> make_train_command() { return std::make_unique<TrainCommand>(); }
