#include <axonn/model/unet/model.hpp>
#include <axonn/program/verification_command.hpp>

#include "commands.hpp"
#include "unet_options.hpp"

namespace {

constexpr int64_t kPictures = 1000;

class VerifyCommand : BoundUnetOptions, public axonn::VerificationCommand {
 public:
  VerifyCommand() : VerificationCommand(options.run, table, {"model", "diffusion"}, "unet") {  // seconds on one core
    options.model.shape = {.image = 8, .base = 16, .multipliers = {1, 2}, .blocks = 1, .attention = {4}, .heads = 8, .groups = 4};
    options.run.train.batch = 16;
  }

 private:
  void apply_preset() override { options.apply_preset(table); }
  void check() const override { options.check(); }
  void check_memory(int local_ranks) const override { options.check_memory(local_ranks); }

  // On shapes, which are drawn from their numbers.
  axonn::MakeNetwork network() const override {
    const auto seed = static_cast<uint64_t>(options.run.train.seed);
    const std::shared_ptr<axonn::PictureSource> pictures = axonn::make_shapes(options.model.shape.image, kPictures, seed);
    axonn::UnetConfig config = options.model;
    if (config.shape.classes < 0) config.shape.classes = static_cast<int64_t>(pictures->classes().size());
    const auto diffusion = std::make_shared<axonn::Diffusion>(options.diffusion, options.run.context().device);
    return [pictures, config, diffusion, seed](axonn::Context& context) {
      auto model = std::make_shared<axonn::Unet>(context, config);
      auto task = std::make_unique<axonn::UnetTask>(context, *model, *diffusion, *pictures, nullptr, axonn::UnetTaskOptions{.seed = seed});
      return axonn::VerifiedNetwork{.model = std::move(model), .task = std::move(task)};
    };
  }
};

}  // namespace

std::unique_ptr<axonn::Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }
