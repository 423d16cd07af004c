#pragma once

#include <string>
#include <vector>

#include <axonn/data/text/tokenizer.hpp>
#include <axonn/model/gpt/config.hpp>
#include <axonn/network/memory.hpp>
#include <axonn/program/run_options.hpp>

// Everything that can be set for training a GPT, on the command line or in a file, and the table that binds it.
struct GptOptions {
  std::string preset;  // --model
  axonn::GptConfig model{.vocabulary = 0};

  std::vector<std::string> data;
  axonn::TokenizerKind tokenizer = axonn::TokenizerKind::bytes;
  double validation_fraction = 0.1;

  axonn::RunOptions run;

  void bind(axonn::OptionTable& table);                // keys of files and flags
  void apply_preset(const axonn::OptionTable& table);  // fills the model's keys that nobody set

  // Throw UserError; nothing has been allocated or started yet. check(): values that fit neither each other nor the grid. check_memory(): a
  // network that does not fit in this machine's memory when `local_ranks` ranks share it.
  void check() const;
  void check_memory(int local_ranks) const { run.check_memory(predict().total_bytes(), local_ranks); }
  axonn::MemoryPrediction predict() const;

  // With vocab = 0 (the tokenizer's), before there is one: with that of bytes.
  axonn::GptConfig whole_model() const;
};

// A base of commands, made before what refers to it.
struct BoundGptOptions {
  GptOptions options;
  axonn::OptionTable table;
  BoundGptOptions() { options.bind(table); }
};
