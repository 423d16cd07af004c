#include <filesystem>
#include <optional>

#include <CLI/CLI.hpp>

#include <axonn/comm/all_ranks_or_none.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/join.hpp>
#include <axonn/core/text.hpp>
#include <axonn/core/utf8.hpp>
#include <axonn/data/tokens/token_data.hpp>
#include <axonn/model/decoder/model.hpp>
#include <axonn/model/hugging_face/model_directory.hpp>
#include <axonn/tasks/text/text_cache.hpp>
#include <axonn/tasks/text/text_task.hpp>
#include <axonn/network/decoder/decoder_network.hpp>
#include <axonn/program/dry_run.hpp>
#include <axonn/program/resume.hpp>
#include <axonn/program/training_command.hpp>
#include <axonn/program/training_run.hpp>

#include "commands.hpp"
#include "gpt_options.hpp"
#include "run_data.hpp"
#include "run_origin.hpp"

namespace {

// All blocks have the same layout.
bool is_first_of_its_kind(std::string_view name) { return !name.starts_with("h.") || name.starts_with("h.0."); }

class TrainCommand : axonn::HoldsOptions<GptOptions>, public axonn::TrainingCommand {
 public:
  TrainCommand() : TrainingCommand(options, kept_keys()) {}
  std::string help() const override { return "train on text (the default)"; }

  void add_flags(CLI::App& app) override {
    TrainingCommand::add_flags(app);
    app.add_option(
        "--from", options.from,
        "begin with weights, sizes and tokenizer of a directory of Hugging Face's (config.json, safetensors)");
  }

  std::optional<int> prepare(char** argv) override {
    AXONN_CHECK(options.from.empty() || axonn::is_model_directory(options.from), "gpt.train", "--from ", options.from,
                " has no config.json; name a directory that save_pretrained() of transformers wrote, or go on from a "
                "run with --resume");
    AXONN_CHECK(options.from.empty() || options.preset.empty(), "gpt.train", "--from takes the sizes of ", options.from,
                "; leave --model out");
    return TrainingCommand::prepare(argv);
  }

 private:
  static std::vector<std::string> kept_keys() {
    std::vector<std::string> keys = axonn::size_keys<axonn::DecoderShape>(axonn::SizesFor::trainer);
    keys.insert(keys.end(), {"model", "lora_rank", "lora_alpha", "lora", "train", "dtype", "tokenizer", "sample_order",
                             "document_mask", "validation_fraction", "validation_tokens", "seed", "batch",
                             "batch_tokens", "optimizer"});
    return keys;
  }

  void print_plan(const axonn::RunPlan& plan) const override {
    const axonn::DecoderConfig config = options.whole_model();
    axonn::Context context = axonn::Context::plan(plan.grid, plan.context);
    axonn::Decoder model(context, config);
    const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(plan.train.seed));
    const int64_t layers = config.shape.layers;
    const std::string others = layers < 2    ? ""
                               : layers == 2 ? "h.1: as h.0"
                                             : axonn::detail::concatenate("h.1 .. h.", layers - 1, ": as h.0");
    axonn::print_dry_run(
        context, parameters, plan,
        {.samples = "sequences", .shown = is_first_of_its_kind, .others = others, .memory = options.predict(plan)});
  }

  axonn::NetworkModel network() const override {
    axonn::NetworkModel model =
        axonn::network_model(options.preset.empty() ? "this network" : options.preset, options.model.shape);
    model.memory = [of_plain = model.memory, mask = options.document_mask](const axonn::GridShape& grid,
                                                                           axonn::MemoryOptions memory) {
      memory.document_mask = mask;
      return of_plain(grid, memory);
    };
    return model;
  }
  int64_t& checkpoint_every() override { return options.model.checkpoint_every; }

  axonn::LoadedData load_data(axonn::Environment& environment, const axonn::CheckpointReader* resumed) override {
    cache_.emplace(environment, options.run.train.out);
    data_ = load_run_data(environment.world(), options, *cache_, resumed);
    return {.fingerprint = data_->fingerprint(),
            .facts = {{"the vocabulary", tokenizer_json()},
                      {"the number of training tokens", std::to_string(data_->train_tokens())},
                      {"the number of held-out tokens", std::to_string(data_->validation_tokens())},
                      {"the hash of --val-data", std::to_string(data_->validation_fingerprint())}},
            .left_out = data_->files().left_out_text()};
  }

  void release_data() override {
    data_.reset();
    cache_.reset();
  }

  void train(axonn::Environment& environment, axonn::Context& context, const axonn::RunPlan& plan,
             const std::optional<axonn::CheckpointReader>& resumed) override {
    axonn::Decoder network(context, options.model);
    const auto seed = static_cast<uint64_t>(plan.train.seed);
    const auto is_loaded = [&](const std::string& name) {
      return resumed || (!options.from.empty() && !axonn::is_adapter(name));
    };
    const axonn::Parameters parameters =
        context.materialize(network, {.seed = seed, .is_trained = options.trained_names(), .is_loaded = is_loaded});
    if (!resumed && !options.from.empty()) begin_with(context, parameters);
    axonn::TextTask task(context, network, *data_, seed, plan.rows(),
                         options.document_mask ? data_->tokenizer()->end_token() : std::nullopt);
    if (plan.train.sample_every > 0) task.set_samples(options.samples);
    task.set_begin([&] {
      axonn::all_ranks_or_none(environment.world(), [&] {
        if (context.rank() == 0)
          keep_origin(plan.train.out, options, data_->tokenizer(), resumed ? &*resumed : nullptr);
      });
      cache_->keep();
    });
    axonn::run_training(environment, context, parameters, task, plan,
                        {.title = title_of(parameters),
                         .data = data_text(),
                         .configuration = options.table.to_json(),
                         .config_toml = options.toml_of_run(),
                         .memory = options.predict(plan),
                         .tokenizer = tokenizer_json(),
                         .fingerprint = data_->fingerprint()},
                        resumed);
  }

  static std::string title_of(const axonn::Parameters& parameters) {
    const auto trained = static_cast<double>(parameters.global_numel());
    if (parameters.frozen() == nullptr) return "gpt " + axonn::with_unit(trained) + " parameters";
    const auto frozen = static_cast<double>(parameters.frozen()->global_numel());
    return "gpt " + axonn::with_unit(trained + frozen) + " parameters, " + axonn::with_unit(trained) +
           " of them trained";
  }

  void begin_with(axonn::Context& context, const axonn::Parameters& parameters) const {
    std::optional<axonn::ModelDirectory> directory;
    axonn::all_ranks_or_none(
        context.communicators().on_cpu({axonn::Axis::x, axonn::Axis::y, axonn::Axis::z, axonn::Axis::data}),
        [&] { directory.emplace(options.from); });
    directory->load(context, parameters);
  }

  std::string tokenizer_json() const {
    return data_->tokenizer() ? data_->tokenizer()->to_json() : std::string(kNoTokenizer);
  }

  // The last parts of the paths, for the first line.
  std::string data_text() const {
    const auto last_part = [](const std::string& path) {
      const auto name = std::filesystem::path(path).filename().string();
      return axonn::shown_name(name.empty() ? path : name);
    };
    const auto tokens = static_cast<double>(data_->train_tokens() + data_->validation_tokens());
    return axonn::join(options.data, " ", last_part) + ": " + axonn::with_unit(tokens) + " tokens";
  }

  std::optional<axonn::TextCache> cache_;
  std::optional<axonn::TokenData> data_;
};

}  // namespace

std::unique_ptr<axonn::Command> make_train_command() { return std::make_unique<TrainCommand>(); }
