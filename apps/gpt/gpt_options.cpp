#include "gpt_options.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <string_view>
#include <system_error>
#include <utility>

#include <axonn/core/error.hpp>
#include <axonn/core/names.hpp>
#include <axonn/grid/context_ring.hpp>
#include <axonn/grid/row_share.hpp>
#include <axonn/hugging_face/tensor_names.hpp>
#include <axonn/layers/attention.hpp>
#include <axonn/model/hugging_face/model_directory.hpp>
#include <axonn/network/decoder/decoder_network.hpp>
#include <axonn/network/decoder/decoder_presets.hpp>
#include <axonn/perfmodel/network_options.hpp>

namespace {

constexpr std::string_view kNone = "none";  // --tokenizer
constexpr int64_t kVocabularyOfBytes = 256;
constexpr int64_t kMostSamples = int64_t{1} << 60;
constexpr double kMostElements = 1e17;  // elements of a step's activations: far beyond any run

// A path without a directory before it begins with "./", so that it differs from a kind.
std::string path_text(std::string_view path) {
  return path.find('/') == std::string_view::npos ? "./" + std::string(path) : std::string(path);
}

// The key as a flag.
std::string flag_of(std::string key) {
  std::ranges::replace(key, '_', '-');
  return key;
}

bool names_files(std::string_view tokenizer) {
  return tokenizer.find('/') != std::string_view::npos || tokenizer.find('.') != std::string_view::npos;
}

axonn::TextValue tokenizer_value(std::string& tokenizer) {
  return {.print = [&] { return tokenizer; },
          .parse =
              [&](std::string_view text, std::string_view what, bool store) {
                std::error_code ignored;
                const auto& kinds = axonn::Names<axonn::TokenizerKind>::all;
                const bool kind =
                    text == kNone || std::ranges::any_of(kinds, [&](const auto& each) { return each.name == text; });
                const bool files = !kind && (names_files(text) || std::filesystem::exists(text, ignored));
                if (!files && text != kNone) axonn::parse_name<axonn::TokenizerKind>(text, what);
                if (store) tokenizer = files ? path_text(text) : text;
              },
          .type = axonn::all_names<axonn::TokenizerKind>("|") + "|none|PATH"};
}

}  // namespace

GptOptions::GptOptions() {
  run.train.out = "runs/gpt";
  model.shape.vocabulary = 0;
  table.add("model", "model", preset,
            "preset: " + axonn::preset_names<axonn::DecoderShape>() +
                "; other keys of [model] override it; or a directory of Hugging Face's, for its sizes");
  axonn::bind_sizes(table, "model", model.shape, axonn::SizesFor::trainer);
  table.add("model", "dropout", model.dropout,
            "dropout rate after the embeddings, of attention probabilities, and of both branches of a block");

  table.add("lora", "lora_rank", model.low_rank.rank,
            "train a low-rank product beside products of each block (LoRA), in place of the weights; 0: none");
  table.add("lora", "lora_alpha", model.low_rank.alpha, "LoRA: its product is scaled by alpha / rank");
  table.add("lora", "lora", model.low_rank_targets, "LoRA: which products have one");
  table.add("train", "train", trained,
            "train only parameters whose name has this regular expression, ours or Hugging Face's: "
            "'layers.(28|29).'; empty: all, or those of LoRA");

  table.add("data", "data", data,
            "text files, directories of them, and files of tokens (X.bin with X.idx, llm.c's, nanogpt:X.bin); with "
            "weights: 0.7 A 0.3 B");
  table.add("data", "val_data", validation_data, "data to validate on, named like --data");
  table.add_text("data", "tokenizer", tokenizer_value(tokenizer),
                 "how text is split into tokens: bytes, chars, or the directory or file of a tokenizer, such as "
                 "tokenizer.json; that of --from, or beside the first file of tokens, if it is not given; none: only "
                 "ids below --vocab");
  table.add("data", "sample_order", order,
            "epochs: every token once, in an order that --seed gives, then again in another; drawn: any place of a "
            "text each time, as before version 0.4");
  table.add_absent("sample_order", "drawn");
  table.add("data", "document_mask", document_mask,
            "tokens see only tokens of their own document, which begins at position 0");
  table.add("data", "validation_fraction", validation_fraction,
            "fraction of each text and file of tokens, at its end, that is held out; not with --val-data");
  table.add("data", "validation_tokens", validation_tokens,
            "most tokens of each text and file of tokens that validate; 0: no limit", {.least = 0});
  table.add_absent("validation_tokens", "0");

  run.bind(table, "sequences");
  table.add("train", "epochs", epochs, "in the place of --steps: times that all data are gone through", {.least = 0});
  table.add("train", "tokens", tokens, "in the place of --steps: tokens to train on", {.least = 0});
  table.add("train", "batch_tokens", batch_tokens, "in the place of --batch: tokens per step, over the whole grid",
            {.least = 0});
  table.add("train", "activation_checkpoint", model.checkpoint_every,
            "every n-th block keeps only its input and is recomputed in backward; 1: all, 0: none");
  table.add("train", "activation_offload", model.checkpoint_offload,
            "keep inputs of checkpointed blocks in host memory");
  table.add("train", "sample_every", run.train.sample_every, "steps between texts that the model writes; 0: never");
  table.add("train", "sample_prompt", samples.prompt, "text that they continue; empty: as gpt generate without one");
  table.add("train", "sample_tokens", samples.tokens, "most tokens that they add", {.least = 1});
  table.for_experts({"train.activation_offload"});
}

void GptOptions::apply_preset() {
  const std::string& directory = from.empty() ? preset : from;
  if (axonn::is_model_directory(directory)) {
    take_sizes(axonn::read_config(std::filesystem::path(directory) / "config.json"), directory);
    if (!from.empty()) take_tokenizer();
    return preset.clear();  // from now on the sizes stand for themselves
  }
  if (!preset.empty()) return axonn::fill_from_preset(table, model.shape, axonn::find_decoder_preset(preset).shape);
  std::vector<std::string> given;
  for (const std::string& key : axonn::size_keys<axonn::DecoderShape>(axonn::SizesFor::trainer))
    if (table.source(key) != axonn::OptionTable::Source::fallback) given.push_back(key);
  axonn::fill_from_preset(table, model.shape, axonn::Sizes<axonn::DecoderShape>::base(given, model.shape));
}

void GptOptions::take_tokenizer() {
  if (table.source("tokenizer") != axonn::OptionTable::Source::fallback) return;
  AXONN_CHECK(axonn::Tokenizer::is_in(from), "gpt.options", from,
              " has no tokenizer; name one with --tokenizer, such as tokenizer.json of the same model");
  tokenizer = path_text(from);
}

bool GptOptions::tokenizer_is_of_files() const { return names_files(tokenizer); }
bool GptOptions::has_no_tokenizer() const { return tokenizer == kNone; }

void GptOptions::take_sizes(const axonn::HuggingFaceConfig& config, const std::string& directory) {
  constexpr int64_t kUsual = 8192;
  using axonn::DecoderShape;
  DecoderShape theirs = config.shape;
  theirs.positions = theirs.learned_positions();  // also with a shorter sequence
  const auto given = [&](std::string_view key) { return table.source(key) != axonn::OptionTable::Source::fallback; };
  AXONN_CHECK(theirs.sequence <= kUsual || given("sequence"), "gpt.options", directory, " allows texts of ",
              theirs.sequence, " tokens: say how long yours are, such as --sequence ", kUsual / 4);
  axonn::Sizes<DecoderShape>::visit([&](const axonn::SizeTerms& terms, auto member) {
    if (!axonn::has_key(terms, axonn::SizesFor::trainer) || !given(terms.key) || terms.key == "sequence") return;
    AXONN_CHECK(model.shape.*member == theirs.*member, "gpt.options", directory, " has ", terms.key, " = ",
                theirs.*member, ", and [model] or a flag says ", model.shape.*member, "; leave it out");
  });
  axonn::fill_from_preset(table, model.shape, theirs);
  AXONN_CHECK(model.shape.sequence <= config.shape.sequence, "gpt.options", directory, " allows texts of ",
              config.shape.sequence, " tokens, got --sequence ", model.shape.sequence, "; make it shorter");
}

std::function<bool(const std::string&)> GptOptions::trained_names() const {
  if (trained.empty() && model.low_rank.rank == 0) return {};
  if (trained.empty()) return [](const std::string& name) { return axonn::is_adapter(name); };
  std::regex pattern;
  try {
    pattern = std::regex(trained);
  } catch (const std::regex_error& error) {
    throw axonn::UserError("gpt.options", "--train '" + trained + "' is no regular expression (" + error.what() +
                                              "); such as 'layers.(28|29).'");
  }
  std::map<std::string, std::string> theirs;
  for (const axonn::DecoderTensor& tensor :
       axonn::tensor_names(whole_model().shape, model.shape.positions == 0 ? "llama" : "gpt2"))
    for (const axonn::FilePart& part : tensor.parts) theirs[tensor.name] += part.name + "\n";
  return [pattern, theirs](const std::string& name) {
    const auto other = theirs.find(name);
    return axonn::is_adapter(name) || std::regex_search(name, pattern) ||
           (other != theirs.end() && std::regex_search(other->second, pattern));
  };
}

axonn::DecoderConfig GptOptions::whole_model() const {
  axonn::DecoderConfig config = model;
  if (config.shape.vocabulary == 0) config.shape.vocabulary = kVocabularyOfBytes;
  return config;
}

std::string GptOptions::given_one_of(const std::vector<Way>& ways) const {
  std::string given;
  auto best = axonn::OptionTable::Source::checkpoint;
  for (const auto& [key, is_set] : ways) {
    const auto source = is_set ? table.source(key) : axonn::OptionTable::Source::fallback;
    AXONN_CHECK(given.empty() || source != best, "gpt.options", "give one of --", flag_of(given), " and --",
                flag_of(key), "; each is another way to say the same");
    if (source <= best) continue;
    best = source;
    given = key;
  }
  return given;
}

void GptOptions::settle() {
  if (const std::string given = given_one_of({{"steps"}, {"epochs", epochs > 0}, {"tokens", tokens > 0}});
      !given.empty()) {
    if (given != "epochs") epochs = 0;
    if (given != "tokens") tokens = 0;
  }
  if (given_one_of({{"batch"}, {"batch_tokens", batch_tokens > 0}}) == "batch") batch_tokens = 0;
  if (batch_tokens == 0) return;
  const auto& grid = run.placement.grid;
  const int64_t context = run.communication.forward.context;
  if (grid && context != axonn::kAutomaticContext) axonn::check_context(*grid, context);
  const int64_t groups = grid && context != axonn::kAutomaticContext ? axonn::row_groups(*grid, context) : 1,
                rows = groups * std::max<int64_t>(run.train.micro_batch, 1);
  const int64_t unit = model.shape.sequence * rows, whole = batch_tokens / unit;
  AXONN_CHECK(batch_tokens % unit == 0, "gpt.options", "--batch-tokens ", batch_tokens, " is no multiple of ", unit,
              " = sequence ", model.shape.sequence, " x ", rows, rows == 1 ? " sequence" : " sequences",
              " at once on this grid; next ones that fit: ",
              whole == 0 ? "" : axonn::detail::concatenate(whole * unit, " and "), (whole + 1) * unit);
  run.train.batch = batch_tokens / model.shape.sequence;
}

void GptOptions::choose_steps(std::optional<int64_t> epoch) {
  if (epochs == 0 && tokens == 0) return;
  const int64_t batch = run.train.batch, a_step = batch * model.shape.sequence;
  AXONN_CHECK(epochs == 0 || epoch, "gpt.options",
              "--epochs counts passes over one row of data: with weights, each part has epochs of its own, and drawn "
              "samples have none; say --tokens or --steps");
  AXONN_CHECK(epochs == 0 || epochs <= kMostSamples / *epoch, "gpt.options", "--epochs ", epochs, " of ", *epoch,
              " sequences are beyond every run");
  run.train.steps = epochs > 0 ? (epochs * *epoch + batch - 1) / batch : tokens / a_step + (tokens % a_step > 0);
}

std::string GptOptions::toml_of_run() {
  const int64_t of_epochs = std::exchange(epochs, 0), of_tokens = std::exchange(tokens, 0),
                of_batch = std::exchange(batch_tokens, 0);
  std::string text = table.to_toml();
  epochs = of_epochs, tokens = of_tokens, batch_tokens = of_batch;
  return text;
}

void GptOptions::check(const axonn::GridShape& grid) const {
  const axonn::DecoderConfig config = whole_model();
  axonn::check_decoder(config, grid);
  if (const int64_t context = run.communication.forward.context; context != axonn::kAutomaticContext)
    axonn::check_sequence(config.shape.sequence, context);
  AXONN_CHECK(!has_no_tokenizer() || model.shape.vocabulary > 0, "gpt.options",
              "--tokenizer none needs --vocab N: all ids are below it");
  AXONN_CHECK(!document_mask || run.communication.forward.split <= 1, "gpt.options",
              "--document-mask computes all sequences of a micro-batch at once; leave --split-forward out");
  AXONN_CHECK(!document_mask || order == axonn::SampleOrder::epochs, "gpt.options",
              "--document-mask needs the ends of documents, which drawn samples of texts have not; use --sample-order "
              "epochs");
  AXONN_CHECK(validation_fraction >= 0 && validation_fraction < 1, "gpt.options",
              "validation_fraction must be in [0, 1), got ", validation_fraction);
  const axonn::DecoderShape& shape = config.shape;
  const double of_a_step = static_cast<double>(run.train.batch) * static_cast<double>(shape.sequence);
  const double elements =
      of_a_step * (static_cast<double>(shape.layers * (20 * shape.hidden + 3 * shape.heads * shape.sequence)) +
                   static_cast<double>(3 * shape.vocabulary));
  AXONN_CHECK(elements <= kMostElements, "gpt.options", "a step of batch ", run.train.batch, " x sequence ",
              shape.sequence, " over ", shape.layers, " layers of hidden ", shape.hidden, " has ", elements,
              " activations; that is beyond every machine");
}

axonn::MemoryPrediction GptOptions::predict(const axonn::RunPlan& plan) const {
  axonn::MemoryOptions memory = axonn::memory_options(plan);
  memory.dropout = model.dropout > 0;
  memory.document_mask = document_mask;
  memory.attention_tiles = plan.context.device.is_cpu();
  memory.attention_block = document_mask ? 0 : axonn::attention_block(model.shape.sequence, plan.context.device);
  memory.checkpoint_every = model.checkpoint_every;
  return axonn::predict_memory(whole_model().shape, plan.grid, memory);
}
