#include <optional>

#include <axonn/core/text.hpp>
#include <axonn/model/unet/model.hpp>
#include <axonn/network/unet/unet_network.hpp>
#include <axonn/program/dry_run.hpp>
#include <axonn/program/resume.hpp>
#include <axonn/program/training_command.hpp>
#include <axonn/program/training_run.hpp>

#include "commands.hpp"
#include "unet_options.hpp"

namespace {

class TrainCommand : BoundUnetOptions, public axonn::TrainingCommand {
 public:
  TrainCommand()
      : TrainingCommand(
            options.run, table,
            {"model", "image",    "base",   "multipliers", "blocks", "attention", "heads", "groups", "classes",   "scale_shift",
             "times", "schedule", "target", "loss",        "mirror", "dtype",     "seed",  "batch",  "optimizer", "validation_fraction"}) {}
  std::string help() const override { return "train on pictures (the default)"; }

 private:
  void apply_preset() override { options.apply_preset(table); }
  void check() const override { options.check(); }
  void check_memory(int local_ranks) const override { options.check_memory(local_ranks); }

  void print_plan() const override {
    const axonn::UnetConfig config = options.known_model();
    axonn::Context context = axonn::Context::plan(options.run.shape(), options.run.context());
    axonn::Unet model(context, config);
    const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(options.run.train.seed));
    axonn::print_dry_run(
        context, parameters, options.run,
        {.samples = "pictures", .shown = [](std::string_view) { return true; }, .others = "", .memory = options.predict()});
  }

  axonn::NetworkModel network() const override {
    return axonn::unet_network(options.preset.empty() ? "this network" : options.preset, options.known_model().shape);
  }

  int64_t& checkpoint_every() override { return options.model.checkpoint_every; }

  void load_data(const axonn::CheckpointReader* resumed) override {
    pictures_ = options.load_pictures();
    if (resumed != nullptr) axonn::check_same_data(*resumed, pictures_.training->fingerprint());
    auto& classes = options.model.shape.classes;
    if (classes < 0) classes = static_cast<int64_t>(pictures_.training->classes().size());
  }

  void train(axonn::Environment& environment, axonn::Context& context, const std::optional<axonn::CheckpointReader>& resumed) override {
    axonn::Unet model(context, options.model);
    const axonn::Diffusion diffusion(options.diffusion, context.options().device);
    const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(options.run.train.seed));
    axonn::UnetTask task(context, model, diffusion, *pictures_.training, pictures_.held_out.get(), task_options(context));
    axonn::run_training(environment, context, parameters, task, options.run,
                        {.title = "unet " + axonn::with_unit(static_cast<double>(parameters.global_numel())) + " parameters",
                         .data = pictures_.training->description(),
                         .configuration = table.to_json(),
                         .tokenizer = "null",
                         .fingerprint = pictures_.training->fingerprint()},
                        resumed);
  }

  axonn::UnetTaskOptions task_options(const axonn::Context& context) const {
    axonn::UnetTaskOptions task = options.task;
    task.samples = options.samples;
    task.seed = static_cast<uint64_t>(options.run.train.seed);
    task.validation_rows = options.run.train.rows(context.shape());
    return task;
  }

  axonn::PictureSplit pictures_;
};

}  // namespace

std::unique_ptr<axonn::Command> make_train_command() { return std::make_unique<TrainCommand>(); }
