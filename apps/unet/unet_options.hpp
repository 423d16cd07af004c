#pragma once

#include <memory>
#include <string>

#include <axonn/data/images/image_data.hpp>
#include <axonn/model/unet/config.hpp>
#include <axonn/tasks/images/diffusion.hpp>
#include <axonn/tasks/images/image_sampler.hpp>
#include <axonn/tasks/images/image_task.hpp>
#include <axonn/program/program_options.hpp>

// Keys of [sample].
void bind_sampling(axonn::OptionTable& table, axonn::ImageSamplingOptions& sampling);

// All options for training a UNet, on the command line or in a file.
class UnetOptions : public axonn::ProgramOptions {
 public:
  std::string preset;  // --model
  axonn::UnetConfig model;
  axonn::DiffusionOptions diffusion;

  std::string data = "shapes";        // or a directory: CIFAR-10's files, or images
  int64_t synthetic_images = 20'000;  // number of images of "shapes"
  double validation_fraction = 0.05;
  axonn::ImageTaskOptions task;

  axonn::ImageSamplingOptions samples;  // drawn every train.sample_every steps, and by `unet sample`

  UnetOptions();

  void apply_preset() override;
  void check(const axonn::GridShape& grid) const override;
  axonn::MemoryPrediction predict(const axonn::RunPlan& plan) const override;

  // Training and held-out images; null if none are held out. UserError for missing or broken files.
  axonn::ImageSplit load_images() const;

  // Before the classes of the data are known: with none.
  axonn::UnetConfig known_model() const;
};
