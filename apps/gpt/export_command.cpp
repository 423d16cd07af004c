#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>

#include <axonn/checkpoint/checkpoint.hpp>
#include <axonn/transport/launch.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/model/gguf/write_gguf.hpp>
#include <axonn/model/hugging_face/model_directory.hpp>
#include <axonn/model/hugging_face/write_model.hpp>
#include <axonn/program/resume.hpp>

#include "commands.hpp"
#include "gpt_options.hpp"

namespace {

namespace fs = std::filesystem;
constexpr const char* kWhere = "gpt.export";

// A network to export, its tensors by our names, and the folder of files that came with it.
struct Source {
  axonn::DecoderConfig config;
  std::function<at::Tensor(const std::string&)> read;
  fs::path original;
  std::string name;  // "step 500 of runs/a"

  at::Tensor merged(const std::string& tensor) const { return axonn::merged_weight(config, tensor, read); }
};

// A run, or a directory of Hugging Face's, as such a directory or as a GGUF file. One process does
// it, on any machine.
class ExportCommand : axonn::HoldsOptions<GptOptions>, public axonn::Command {
 public:
  std::string name() const override { return "export"; }
  std::string help() const override { return "write a model as transformers or llama.cpp loads it"; }

  void add_flags(CLI::App& app) override {
    app.add_option("MODEL", model_,
                   "a run's directory (its newest checkpoint), one checkpoint, or a directory of Hugging Face's")
        ->required();
    app.add_option("--out", out_, "directory to write, or file with --format gguf")->required();
    app.add_option("--format", format_, "hf: a directory of Hugging Face's; gguf: one file for llama.cpp")
        ->capture_default_str();
    app.add_option("--dtype", dtype_, "type of the weights: fp32, bf16 or fp16")->capture_default_str();
    divided_ = app.add_option("--shard-size", shard_size_, "most bytes of a file of weights, such as 5G; 0: one file")
                   ->capture_default_str();
    app.add_flag("--adapter", adapter_, "only the low-rank products of a run with --lora-rank, as PEFT loads them");
    app.add_flag("--average", average_, "the average of the weights, of a run that keeps one");
    app.add_flag("--overwrite", overwrite_, "replace what exists at --out");
  }

  std::optional<int> prepare(char**) override {
    if (axonn::launched_rank() != 0) return 0;  // one of several processes is enough
    static const std::map<std::string, at::ScalarType> kTypes = {
        {"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}};
    AXONN_CHECK(kTypes.contains(dtype_), kWhere, "--dtype must be fp32, bf16 or fp16, got '", dtype_, "'");
    AXONN_CHECK(format_ == "hf" || format_ == "gguf", kWhere, "--format must be hf or gguf, got '", format_, "'");
    AXONN_CHECK(format_ == "hf" || (!adapter_ && divided_->count() == 0), kWhere,
                "--format gguf writes one whole model; leave --adapter and --shard-size out");
    const Source source = axonn::is_model_directory(model_) ? of_directory() : of_run();
    const int64_t bytes = format_ == "gguf" ? write_gguf(source, kTypes.at(dtype_)) : write(source, kTypes.at(dtype_));
    std::printf("%s: %s, %s of weights\n", out_.c_str(), source.name.c_str(),
                axonn::bytes_text(static_cast<double>(bytes)).c_str());
    return 0;
  }

  int run(axonn::Environment&) override { return 0; }  // prepare() has done it

 private:
  using Tensors = std::map<std::string, const axonn::CheckpointReader::Description*>;
  static Tensors tensors_of(const axonn::CheckpointReader& checkpoint, std::string_view group) {
    Tensors tensors;
    for (const auto& tensor : checkpoint.tensors())
      if (tensor.name.starts_with(group)) tensors.emplace(tensor.name.substr(group.size()), &tensor);
    return tensors;
  }

  Source of_directory() const {
    AXONN_CHECK(!adapter_ && !average_, kWhere, model_,
                " is no run, and only runs have low-rank products and averages; leave --adapter and --average out");
    const auto opened = std::make_shared<axonn::ModelDirectory>(model_);
    return {.config = {.shape = opened->config().shape},
            .read = [opened](const std::string& tensor) { return opened->read_whole(tensor); },
            .original = model_,
            .name = model_};
  }

  Source of_run() {
    const auto opened = std::make_shared<axonn::CheckpointReader>(model_);
    axonn::check_same_network(options.table, *opened);
    options.table.read_json(opened->state().configuration, (opened->directory() / "manifest.json").string());
    options.apply_preset();
    Tensors tensors = tensors_of(*opened, "weights/");
    if (average_) {  // frozen weights have none
      Tensors averages = tensors_of(*opened, "ema/");
      AXONN_CHECK(!averages.empty(), kWhere, opened->directory().string(),
                  " has no average of its weights; leave --average out, or train with --ema");
      averages.merge(tensors);
      tensors = std::move(averages);
    }
    const fs::path origin = axonn::origin_of_run(opened->directory().parent_path());
    return {.config = options.model,
            .read = [opened, tensors](const std::string& tensor) { return opened->read_whole(*tensors.at(tensor)); },
            .original = fs::exists(origin) ? origin : fs::path(),
            .name = axonn::detail::concatenate("step ", opened->state().step, " of ", model_)};
  }

  int64_t write(const Source& source, at::ScalarType dtype) const {
    const axonn::WriteModelOptions how = {
        .dtype = dtype,
        .shard_bytes = axonn::parse_count(shard_size_, "--shard-size", axonn::Suffixes::binary),
        .original = source.original,
        .overwrite = overwrite_};
    if (adapter_) return axonn::write_adapter(out_, source.config, source.read, how);
    return axonn::write_model(
        out_, source.config.shape, [&](const std::string& tensor) { return source.merged(tensor); }, how);
  }

  int64_t write_gguf(const Source& source, at::ScalarType dtype) const {
    return axonn::write_gguf(out_, source.config.shape,
                             [&](const std::string& tensor) { return source.merged(tensor); },
                             {.dtype = dtype, .original = source.original, .overwrite = overwrite_});
  }

  std::string model_, out_, format_ = "hf", dtype_ = "fp32", shard_size_ = "5G";
  CLI::Option* divided_ = nullptr;
  bool adapter_ = false, average_ = false, overwrite_ = false;
};

}  // namespace

std::unique_ptr<axonn::Command> make_export_command() { return std::make_unique<ExportCommand>(); }
