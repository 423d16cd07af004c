#pragma once

#include <memory>
#include <string>

#include <axonn/data/images/picture_data.hpp>
#include <axonn/model/unet/config.hpp>
#include <axonn/model/unet/diffusion.hpp>
#include <axonn/model/unet/picture_sampler.hpp>
#include <axonn/model/unet/task.hpp>
#include <axonn/program/program_options.hpp>

// Keys of [sample].
void bind_sampling(axonn::OptionTable& table, axonn::PictureSamplingOptions& sampling);

// Everything that can be set for training a UNet, on the command line or in a file.
class UnetOptions : public axonn::ProgramOptions {
 public:
  std::string preset;  // --model
  axonn::UnetConfig model;
  axonn::DiffusionOptions diffusion;

  std::string data = "shapes";  // or a directory: CIFAR-10's files, or pictures
  int64_t pictures = 20'000;    // of "shapes"
  double validation_fraction = 0.05;
  axonn::UnetTaskOptions task;

  axonn::PictureSamplingOptions samples;  // drawn every train.sample_every steps, and by `unet sample`

  UnetOptions();

  void apply_preset() override;
  void check(const axonn::GridShape& grid) const override;
  axonn::MemoryPrediction predict(const axonn::RunPlan& plan) const override;

  // What is learned from, and what is held out (null without any). UserError for files that are missing or broken.
  axonn::PictureSplit load_pictures() const;

  // Before the data have told their classes: with none.
  axonn::UnetConfig known_model() const;
};
