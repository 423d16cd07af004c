#include <optional>

#include <axonn/comm/each_reads.hpp>
#include <axonn/core/join.hpp>
#include <axonn/core/text.hpp>
#include <axonn/model/unet/model.hpp>
#include <axonn/model/unet/parallelize.hpp>
#include <axonn/network/unet/unet_network.hpp>
#include <axonn/program/dry_run.hpp>
#include <axonn/program/resume.hpp>
#include <axonn/program/training_command.hpp>
#include <axonn/program/training_run.hpp>

#include "commands.hpp"
#include "unet_options.hpp"

namespace {

class TrainCommand : axonn::HoldsOptions<UnetOptions>, public axonn::TrainingCommand {
 public:
  TrainCommand() : TrainingCommand(options, kept_keys()) {}
  std::string help() const override { return "train on images (the default)"; }

 private:
  static std::vector<std::string> kept_keys() {
    std::vector<std::string> keys = axonn::size_keys<axonn::UnetShape>(axonn::SizesFor::trainer);
    keys.insert(keys.end(), {"model", "times", "schedule", "target", "loss", "mirror", "dtype", "seed", "batch",
                             "optimizer", "validation_fraction"});
    return keys;
  }

  void print_plan(const axonn::RunPlan& plan) const override {
    axonn::Context context = axonn::Context::plan(plan.grid, plan.context);
    axonn::Unet network(context, options.known_model());
    const axonn::Parameters parameters = context.materialize(network, static_cast<uint64_t>(plan.train.seed));
    axonn::print_dry_run(context, parameters, plan,
                         {.samples = "images",
                          .shown = [](std::string_view) { return true; },
                          .others = "",
                          .memory = options.predict(plan)});
  }

  axonn::NetworkModel network() const override {
    return axonn::network_model(options.preset.empty() ? "this network" : options.preset, options.known_model().shape);
  }

  std::vector<axonn::ConvolutionShape> convolutions(const axonn::RunPlan& plan) const override {
    return axonn::unet_convolutions(options.model.shape, plan.grid);
  }

  int64_t& checkpoint_every() override { return options.model.checkpoint_every; }

  axonn::LoadedData load_data(axonn::Environment& environment, const axonn::CheckpointReader*) override {
    axonn::each_rank_reads(environment.world(), [&] { images_ = options.load_images(); });
    auto& classes = options.model.shape.classes;
    if (classes < 0) classes = static_cast<int64_t>(images_.training->classes().size());
    const axonn::ImageSource* const held_out = images_.held_out.get();
    return {
        .fingerprint = images_.training->fingerprint(),
        .facts = {{"the list of classes", names_of_classes()},
                  {"the number of training images", std::to_string(images_.training->count())},
                  {"the number of held-out images", std::to_string(held_out ? held_out->count() : 0)},
                  {"the fingerprint of the held-out images", std::to_string(held_out ? held_out->fingerprint() : 0)},
                  {"the fingerprint of names and lengths", std::to_string(images_.training->fingerprint())},
                  {"the hash of both ends of each file", std::to_string(images_.training->content())}},
        .left_out = images_.training->files().left_out_text()};
  }

  // Their names are those of folders, which have no slash.
  std::string names_of_classes() const { return axonn::join(images_.training->classes(), "/"); }

  void train(axonn::Environment& environment, axonn::Context& context, const axonn::RunPlan& plan,
             const std::optional<axonn::CheckpointReader>& resumed) override {
    axonn::Unet network(context, options.model);
    const axonn::Diffusion process(options.diffusion, context.options().device);
    const axonn::Parameters parameters = context.materialize(network, static_cast<uint64_t>(plan.train.seed));
    axonn::ImageTask images(context, network, process, *images_.training, images_.held_out.get(), task_options(plan));
    axonn::run_training(
        environment, context, parameters, images, plan,
        {.title = "unet " + axonn::with_unit(static_cast<double>(parameters.global_numel())) + " parameters",
         .data = images_.training->description(),
         .configuration = options.table.to_json(),
         .config_toml = options.table.to_toml(),
         .memory = options.predict(plan),
         .tokenizer = "null",
         .fingerprint = images_.training->fingerprint()},
        resumed);
  }

  axonn::ImageTaskOptions task_options(const axonn::RunPlan& plan) const {
    axonn::ImageTaskOptions chosen = options.task;
    chosen.samples = options.samples;
    chosen.seed = static_cast<uint64_t>(plan.train.seed);
    chosen.validation_rows = plan.rows();
    return chosen;
  }

  axonn::ImageSplit images_;
};

}  // namespace

std::unique_ptr<axonn::Command> make_train_command() { return std::make_unique<TrainCommand>(); }
