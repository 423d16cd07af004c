#include <cstdio>
#include <filesystem>
#include <optional>

#include <axonn/core/error.hpp>
#include <axonn/model/gpt_model.hpp>
#include <axonn/train/checkpoint.hpp>
#include <axonn/train/together.hpp>
#include <axonn/train/tokenizer.hpp>

#include "commands.hpp"
#include "local_job.hpp"

void check_generate(const GptOptions& options) {
  AXONN_CHECK(!options.checkpoint.empty(), "gpt.generate", "name the checkpoint or the run's directory with --checkpoint");
  AXONN_CHECK(
      options.sampling.tokens >= 0 && options.sampling.temperature >= 0 && options.sampling.top_k >= 0 && options.sampling_seed >= 0,
      "gpt.generate", "--tokens, --temperature, --top-k and --sampling-seed must not be negative");
  axonn::parse_axis_order(options.order);
  options.shape();
}

int run_generate(axonn::Environment& environment, const GptOptions& options) {
  check_ranks(options.shape(), environment.ranks());
  std::optional<axonn::CheckpointReader> reader;
  GptOptions saved;
  axonn::OptionTable table;
  saved.bind(table);
  std::vector<int32_t> prompt;
  axonn::succeed_together(environment.world(), [&] {
    reader.emplace(options.checkpoint);
    table.read_json(reader->state().configuration, (reader->directory() / "manifest.json").string());
    axonn::check_gpt(saved.model, options.shape());
    prompt = axonn::Tokenizer::from_json(reader->state().tokenizer).encode(options.prompt.empty() ? "\n" : options.prompt);
  });
  const axonn::Tokenizer tokenizer = axonn::Tokenizer::from_json(reader->state().tokenizer);

  auto context_options = options.context();
  context_options.dtype = saved.dtype;
  context_options.gradient_dtype.reset();
  axonn::Context context(environment, options.shape(), context_options);
  axonn::Gpt model(context, saved.model);
  const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(saved.train.seed));
  const auto tensors = axonn::checkpoint_tensors(parameters, nullptr);
  axonn::succeed_together(environment.world(), [&] { reader->load(context.shape(), context.at(), tensors); });
  parameters.arena().round_master();

  axonn::SamplingOptions sampling = options.sampling;
  sampling.vocabulary = tokenizer.vocabulary_size();
  sampling.seed = static_cast<uint64_t>(options.sampling_seed);
  const auto text = axonn::sample_text(context, model, prompt, sampling);
  if (environment.rank() == 0) std::printf("%s\n", tokenizer.decode(text).c_str());
  return 0;
}
