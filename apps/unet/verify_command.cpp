#include <CLI/CLI.hpp>

#include <axonn/model/unet_model.hpp>
#include <axonn/train/program/verification_run.hpp>

#include "commands.hpp"
#include "unet_options.hpp"

namespace {

constexpr int64_t kPictures = 1000;

class VerifyCommand : public axonn::Command {
 public:
  VerifyCommand() {  // seconds on one core
    options_.model.shape = {.image = 8, .base = 16, .multipliers = {1, 2}, .blocks = 1, .attention = {4}, .heads = 8, .groups = 4};
    options_.run.dtype = at::kDouble;
    options_.run.train.batch = 16;
    options_.run.train.steps = 5;
    options_.run.train.learning_rate = axonn::VerificationOptions().learning_rate;
    options_.bind(table_);
  }

  std::string name() const override { return "verify"; }
  std::string help() const override { return "compare a grid with one rank, tensor by tensor"; }

  void add_flags(CLI::App& app) override {
    table_.add_flags(app, {"model", "diffusion", "run.grid", "run.order", "run.dtype", "run.device", "run.seed", "overlap", "train.steps",
                           "train.batch", "train.optimizer", "train.learning_rate", "train.clip"});
    app.add_option("--config", config_, "TOML file with the same keys");
    app.add_option("--micro-batches", verification_.micro_batches, "forwards a step");
  }

  std::optional<int> prepare(char** argv) override {
    if (!config_.empty()) table_.read_toml_file(config_);
    options_.apply_preset(table_);
    options_.check();
    return verification_.prepare(argv);
  }

  // On shapes, which are drawn from their numbers.
  int run(axonn::Environment& environment) override {
    const auto seed = static_cast<uint64_t>(options_.run.train.seed);
    const std::shared_ptr<axonn::PictureSource> pictures = axonn::make_shapes(options_.model.shape.image, kPictures, seed);
    axonn::UnetConfig config = options_.model;
    if (config.shape.classes < 0) config.shape.classes = static_cast<int64_t>(pictures->classes().size());
    const axonn::Diffusion diffusion(options_.diffusion, options_.run.context().device);
    const auto make = [&](axonn::Context& context) {
      auto model = std::make_shared<axonn::Unet>(context, config);
      auto task = std::make_unique<axonn::UnetTask>(context, *model, diffusion, *pictures, nullptr, axonn::UnetTaskOptions{.seed = seed});
      return axonn::VerifiedNetwork{.model = std::move(model), .task = std::move(task)};
    };
    return verification_.run(environment, "unet verify", make);
  }

 private:
  UnetOptions options_;
  axonn::OptionTable table_;
  std::string config_;
  axonn::VerificationRun verification_{.options = options_.run};
};

}  // namespace

std::unique_ptr<axonn::Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }
