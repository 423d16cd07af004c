#pragma once

#include <memory>
#include <string>

#include <axonn/data/images/picture_data.hpp>
#include <axonn/model/unet/config.hpp>
#include <axonn/model/unet/diffusion.hpp>
#include <axonn/model/unet/picture_sampler.hpp>
#include <axonn/model/unet/task.hpp>
#include <axonn/network/memory.hpp>
#include <axonn/program/run_options.hpp>

// Keys of [sample].
void bind_sampling(axonn::OptionTable& table, axonn::PictureSamplingOptions& sampling);

// Everything that can be set for training a UNet, on the command line or in a file, and the table that binds it.
struct UnetOptions {
  std::string preset;  // --model
  axonn::UnetConfig model;
  axonn::DiffusionOptions diffusion;

  std::string data = "shapes";  // or a directory: CIFAR-10's files, or pictures
  int64_t pictures = 20'000;    // of "shapes"
  double validation_fraction = 0.05;
  axonn::UnetTaskOptions task;

  axonn::PictureSamplingOptions samples;  // drawn every train.sample_every steps, and by `unet sample`

  axonn::RunOptions run;

  UnetOptions();
  void bind(axonn::OptionTable& table);                // keys of files and flags
  void apply_preset(const axonn::OptionTable& table);  // fills the model's keys that nobody set

  // What is learned from, and what is held out (null without any). UserError for files that are missing or broken.
  axonn::PictureSplit load_pictures() const;

  // Throw UserError; nothing has been allocated or started yet. check(): values that fit neither each other nor the grid. check_memory(): a
  // network that does not fit in this machine's memory when `local_ranks` ranks share it.
  void check() const;
  void check_memory(int local_ranks) const { run.check_memory(predict().total_bytes(), local_ranks); }
  axonn::MemoryPrediction predict() const;

  // Before the data have told their classes: with none.
  axonn::UnetConfig known_model() const;
};

// A base of commands, made before what refers to it.
struct BoundUnetOptions {
  UnetOptions options;
  axonn::OptionTable table;
  BoundUnetOptions() { options.bind(table); }
};
