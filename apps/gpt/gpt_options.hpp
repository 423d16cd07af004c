#pragma once

#include <string>
#include <vector>

#include <axonn/model/gpt_config.hpp>
#include <axonn/train/gpt_task.hpp>
#include <axonn/train/options.hpp>
#include <axonn/train/trainer.hpp>

// Everything that can be set on the command line or in a file, and the table that binds it.
struct GptOptions {
  std::string preset;  // --model
  axonn::GptConfig model{.vocabulary = 0};

  std::vector<std::string> data;
  axonn::TokenizerKind tokenizer = axonn::TokenizerKind::bytes;
  double validation_fraction = 0.1;

  std::string grid = "1x1x1x1";
  std::string order = "xyzd";
  at::ScalarType dtype = at::kFloat;
  std::string device = "cpu";
  axonn::TrainConfig train;
  std::string resume;       // checkpoint or run directory
  bool dry_run = false;

  axonn::SamplingOptions sampling;
  std::string checkpoint;   // generate
  std::string prompt = "\n";

  void become_small();                                 // defaults of `verify`: seconds on one core
  void bind(axonn::OptionTable& table);                // keys of files and flags
  void apply_preset(const axonn::OptionTable& table);  // fills the model's keys that nobody set
  axonn::GridShape shape() const { return axonn::parse_grid_shape(grid); }
  axonn::ContextOptions context() const;
};
