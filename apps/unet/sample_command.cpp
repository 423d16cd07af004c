#include <cstdio>
#include <string>

#include <axonn/comm/all_ranks_or_none.hpp>
#include <axonn/core/error.hpp>
#include <axonn/data/images/image_sheet.hpp>
#include <axonn/model/unet/model.hpp>
#include <axonn/tasks/images/image_sampler.hpp>
#include <axonn/program/checkpoint_command.hpp>

#include "commands.hpp"
#include "unet_options.hpp"

namespace {

class SampleCommand : axonn::HoldsOptions<UnetOptions>, public axonn::CheckpointCommand {
 public:
  SampleCommand() : CheckpointCommand(options) {
    flags().add("sample", "out", out_, "file for the sheet of images, PNG");
    flags().add("sample", "trajectory", trajectory_, "file for a strip per image that shows its way from noise, PNG");
    flags().add("sample", "moments", moments_, "images per strip");
    flags().add("sample", "columns", columns_, "columns of the sheet; 0: as many as rows");
    flags().add("sample", "sampling_seed", seed_, "seed of the noise");
    bind_sampling(flags(), sampling_);
  }

  std::string name() const override { return "sample"; }
  std::string help() const override { return "draw images with a trained model"; }

 private:
  void check_flags() const override {
    AXONN_CHECK(seed_ >= 0 && columns_ >= 0, "unet.sample", "--sampling-seed and --columns must not be negative");
    AXONN_CHECK(moments_ >= 1, "unet.sample", "--moments must be at least 1, got ", moments_);
  }

  void check_model(const axonn::TrainedModel&, const axonn::GridShape& grid) override {
    options.apply_preset();
    axonn::check_unet(options.model, grid);
  }

  void use(axonn::Environment& environment, axonn::Context& context, const axonn::TrainedModel& model) override {
    axonn::Unet network(context, options.model);
    load(context, network, model);
    sampling_.seed = static_cast<uint64_t>(seed_);
    sampling_.trajectory = trajectory_.empty() ? 0 : moments_;
    const auto drawn = axonn::sample_images(context, network,
                                            axonn::Diffusion(options.diffusion, context.options().device), sampling_);
    axonn::all_ranks_or_none(environment.world(), [&] {
      if (environment.rank() != 0) return;
      axonn::save_sheet(out_, drawn.images, columns_);
      if (!trajectory_.empty()) axonn::save_strip(trajectory_, drawn.trajectory);
    });
    if (environment.rank() == 0)
      std::printf("%lld images in %s\n", static_cast<long long>(sampling_.count), out_.c_str());
  }

  axonn::ImageSamplingOptions sampling_;
  std::string out_ = "samples.png", trajectory_;
  int64_t moments_ = 8, columns_ = 0, seed_ = 1;
};

}  // namespace

std::unique_ptr<axonn::Command> make_sample_command() { return std::make_unique<SampleCommand>(); }
