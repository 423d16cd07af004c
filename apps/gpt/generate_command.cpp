#include <cstdio>
#include <filesystem>

#include <axonn/core/error.hpp>
#include <axonn/model/gpt_model.hpp>
#include <axonn/train/checkpoint.hpp>
#include <axonn/train/tokenizer.hpp>

#include "commands.hpp"

int run_generate(axonn::Environment& environment, const GptOptions& options) {
  AXONN_CHECK(!options.checkpoint.empty(), "gpt.generate", "name the checkpoint or the run's directory with --checkpoint");
  const axonn::CheckpointReader reader(options.checkpoint);
  GptOptions saved;
  axonn::OptionTable table;
  saved.bind(table);
  table.read_json(reader.state().configuration, (reader.directory() / "manifest.json").string());
  const axonn::Tokenizer tokenizer = axonn::Tokenizer::from_json(reader.state().tokenizer);

  auto context_options = options.context();
  context_options.dtype = saved.dtype;
  axonn::Context context(environment, options.shape(), context_options);
  axonn::Gpt model(context, saved.model);
  const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(saved.train.seed));
  reader.load(context.shape(), context.at(), axonn::checkpoint_tensors(parameters, nullptr));

  axonn::SamplingOptions sampling = options.sampling;
  sampling.vocabulary = tokenizer.vocabulary_size();
  const auto text = axonn::sample_text(context, model, tokenizer.encode(options.prompt), sampling);
  if (environment.rank() == 0) std::printf("%s\n", tokenizer.decode(text).c_str());
  return 0;
}
