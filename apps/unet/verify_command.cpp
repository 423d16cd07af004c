#include <axonn/model/unet/model.hpp>
#include <axonn/program/verification_command.hpp>

#include "commands.hpp"
#include "unet_options.hpp"

namespace {

constexpr int64_t kImages = 1000;

class VerifyCommand : axonn::HoldsOptions<UnetOptions>, public axonn::VerificationCommand {
 public:
  VerifyCommand() : VerificationCommand(options, {"model", "diffusion"}, "unet") {  // takes seconds on one core
    options.model.shape = {
        .image = 8, .base = 16, .multipliers = {1, 2}, .blocks = 1, .attention = {4}, .heads = 8, .groups = 4};
    options.run.train.batch = 16;
  }

 private:
  // The samples are shapes, which are drawn from their numbers.
  axonn::MakeNetwork network(const axonn::RunPlan& plan) const override {
    const auto seed = static_cast<uint64_t>(plan.train.seed);
    const std::shared_ptr<axonn::ImageSource> shapes = axonn::make_shapes(options.model.shape.image, kImages, seed);
    axonn::UnetConfig config = options.model;
    if (config.shape.classes < 0) config.shape.classes = static_cast<int64_t>(shapes->classes().size());
    const auto process = std::make_shared<axonn::Diffusion>(options.diffusion, plan.context.device);
    return [shapes, config, process, seed](axonn::Context& context) {
      auto network = std::make_shared<axonn::Unet>(context, config);
      auto drawn = std::make_unique<axonn::ImageTask>(context, *network, *process, *shapes, nullptr,
                                                      axonn::ImageTaskOptions{.seed = seed});
      return axonn::VerifiedNetwork{.model = std::move(network), .task = std::move(drawn)};
    };
  }
};

}  // namespace

std::unique_ptr<axonn::Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }
