#pragma once

#include <string>
#include <vector>

#include <axonn/data/text/tokenizer.hpp>
#include <axonn/model/decoder/config.hpp>
#include <axonn/program/program_options.hpp>

// All options for training a GPT, on the command line or in a file.
class GptOptions : public axonn::ProgramOptions {
 public:
  std::string preset;          // --model
  axonn::DecoderConfig model;  // vocabulary 0: that of the tokenizer

  std::vector<std::string> data;
  axonn::TokenizerKind tokenizer = axonn::TokenizerKind::bytes;
  double validation_fraction = 0.1;

  GptOptions();

  void apply_preset() override;
  void check(const axonn::GridShape& grid) const override;
  axonn::MemoryPrediction predict(const axonn::RunPlan& plan) const override;

  // If the vocabulary is 0 (that of the tokenizer) and there is no tokenizer yet: with a vocabulary
  // of bytes.
  axonn::DecoderConfig whole_model() const;
};
