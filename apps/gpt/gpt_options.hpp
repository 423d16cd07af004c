#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <axonn/data/tokenizer/tokenizer.hpp>
#include <axonn/data/tokens/sample_order.hpp>
#include <axonn/hugging_face/config_file.hpp>
#include <axonn/model/decoder/config.hpp>
#include <axonn/program/program_options.hpp>
#include <axonn/tasks/text/text_samples.hpp>

// All options for training a GPT, on the command line or in a file.
class GptOptions : public axonn::ProgramOptions {
 public:
  std::string preset;          // --model: the name of one, or a directory of Hugging Face's
  std::string from;            // --from: a directory whose network a new run begins with; no key of files
  axonn::DecoderConfig model;  // vocabulary 0: that of the tokenizer

  std::string trained;  // --train: a pattern of the names of trained parameters; empty: all, or the adapters

  std::vector<std::string> data, validation_data;
  std::string tokenizer = "bytes";  // or chars, none, or the path of a tokenizer's files
  axonn::SampleOrder order = axonn::SampleOrder::epochs;
  double validation_fraction = 0.1;
  int64_t validation_tokens = int64_t{1} << 20;

  axonn::TextSamples samples;  // written every train.sample_every steps

  bool document_mask = false;  // tokens see only their own document

  int64_t epochs = 0, tokens = 0;  // in the place of train.steps; 0: not given
  int64_t batch_tokens = 0;        // in the place of train.batch; 0: not given

  GptOptions();

  void apply_preset() override;
  // Takes the sizes of a network that comes from elsewhere. UserError for a size in [model] that
  // says otherwise; the sequence may be shorter.
  void take_sizes(const axonn::HuggingFaceConfig& config, const std::string& directory);
  void take_tokenizer();  // that of `from`, if no other is named; UserError if it has none
  void settle() override;
  // The number of steps that --epochs or --tokens asks for. `epoch`: windows of one, if there are
  // epochs.
  void choose_steps(std::optional<int64_t> epoch);
  void check(const axonn::GridShape& grid) const override;
  axonn::MemoryPrediction predict(const axonn::RunPlan& plan) const override;

  // The configuration of a run that has begun, to be read as a file: steps and batch are numbers,
  // also where they were given as epochs or tokens.
  std::string toml_of_run();

  bool tokenizer_is_of_files() const;

  bool has_no_tokenizer() const;

  // Whether the parameter of that name is trained; no function: all are. UserError for a pattern
  // that is none.
  std::function<bool(const std::string&)> trained_names() const;

  // If the vocabulary is 0 (that of the tokenizer) and there is no tokenizer yet: with a vocabulary
  // of bytes.
  axonn::DecoderConfig whole_model() const;

 private:
  // A key that says in another way what other keys say.
  struct Way {
    std::string key;
    bool is_set = true;
  };
  // The key that the user gives; none if there are only defaults. UserError for two.
  std::string given_one_of(const std::vector<Way>& ways) const;
};
