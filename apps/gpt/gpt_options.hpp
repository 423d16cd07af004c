#pragma once

#include <string>
#include <vector>

#include <axonn/model/gpt_config.hpp>
#include <axonn/perfmodel/memory.hpp>
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
  std::string gradient_dtype = "auto";
  std::string device = "cpu";
  std::string gemm = "auto";
  std::string overlap = "all";
  std::string gather_cache = "512M";
  std::string bucket = "25M";
  int64_t prefetch = axonn::OverlapPolicy().prefetch;
  axonn::TrainConfig train;
  std::string resume;  // checkpoint or run directory
  bool dry_run = false;

  axonn::SamplingOptions sampling;  // generate
  int64_t sampling_seed = 1;
  std::string checkpoint;
  std::string prompt;

  int64_t micro_batches = 1;  // verify

  void become_small();                                 // defaults of `verify`: seconds on one core
  void bind(axonn::OptionTable& table);                // keys of files and flags
  void bind_sampling(axonn::OptionTable& table);       // flags of `generate`
  void apply_preset(const axonn::OptionTable& table);  // fills the model's keys that nobody set

  // Throw UserError; nothing has been allocated or started yet. check(): values that fit neither each other nor the grid. check_memory(): a
  // network that does not fit in this machine's memory when `local_ranks` ranks share it.
  void check() const;
  void check_memory(int local_ranks) const;
  axonn::MemoryPrediction predict() const;

  axonn::GridShape shape() const { return axonn::parse_grid_shape(grid); }
  axonn::OverlapPolicy policy() const;
  axonn::ContextOptions context() const;
};
