#include "axonn/model/hugging_face/write_model.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "axonn/checkpoint/state_dict_files.hpp"
#include "axonn/core/error.hpp"
#include "axonn/hugging_face/config_file.hpp"
#include "axonn/hugging_face/tensor_names.hpp"
#include "core/files.hpp"
#include "model/hugging_face/new_directory.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
constexpr const char* kWhere = "model.write_model";

constexpr std::array<std::string_view, 2> kOfModel = {"config.json", "generation_config.json"};
constexpr std::array<std::string_view, 9> kOfTokenizer = {"tokenizer.json",    "tokenizer_config.json",
                                                          "tokenizer.model",   "special_tokens_map.json",
                                                          "added_tokens.json", "vocab.json",
                                                          "merges.txt",        "chat_template.jinja",
                                                          "chat_template.json"};
constexpr std::string_view kRanks = ".tiktoken";

std::string_view name_of(at::ScalarType dtype) {
  AXONN_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf, kWhere,
              "weights are written as fp32, bf16 or fp16, got ", c10::toString(dtype), "; choose one of them");
  return dtype == at::kFloat ? "float32" : dtype == at::kBFloat16 ? "bfloat16" : "float16";
}

// The tensors of the file, each a part of one of ours.
struct Parts {
  std::vector<safetensors::View> views;
  std::vector<std::pair<const DecoderTensor*, const FilePart*>> of_views;  // in the order of the file
};

Parts parts_of(const std::vector<DecoderTensor>& tensors, at::ScalarType dtype) {
  Parts parts;
  for (const DecoderTensor& tensor : tensors)
    for (const FilePart& part : tensor.parts) {
      parts.views.push_back({.name = part.name, .dtype = dtype, .shape = part.shape, .parts = {}});
      parts.of_views.emplace_back(&tensor, &part);
    }
  return parts;
}

int64_t bytes_of(const DecoderShape& shape, at::ScalarType dtype) {
  return parameters_of(shape) * static_cast<int64_t>(c10::elementSize(dtype));
}

}  // namespace

int64_t write_model(const fs::path& directory, const DecoderShape& shape,
                    const std::function<at::Tensor(const std::string&)>& read, const WriteModelOptions& options) {
  const at::NoGradGuard no_grad;
  const fs::path config = options.original / "config.json";
  const std::string before = !options.original.empty() && fs::exists(config) ? disk::read_text(config) : "";
  const WrittenConfig written = write_config(shape, name_of(options.dtype), before);
  NewDirectory out(directory, options.overwrite);
  const std::vector<DecoderTensor> tensors = tensor_names(shape, written.model_type);
  const Parts parts = parts_of(tensors, options.dtype);
  const bool divided = options.shard_bytes > 0 && bytes_of(shape, options.dtype) > options.shard_bytes;
  safetensors::StateDictWriter files(parts.views, out.path() / "model.safetensors", divided ? options.shard_bytes : 0);
  int64_t bytes = 0;
  const DecoderTensor* last = nullptr;
  at::Tensor whole;
  for (const auto& [tensor, part] : parts.of_views) {
    if (std::exchange(last, tensor) != tensor) whole = read(tensor->name);
    const at::Tensor rows = whole.narrow(0, part->rows.begin, part->rows.size());
    const at::Tensor values =
        safetensors::converted(part->transposed ? rows.t() : rows, options.dtype, part->name).contiguous();
    files.append({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
    bytes += static_cast<int64_t>(values.nbytes());
  }
  files.finish();
  disk::write_synced(out.path() / "config.json", written.text);
  if (!options.original.empty())
    for (const fs::path& file : files_beside_weights(options.original))
      if (file.filename() != "config.json") fs::copy_file(file, out.path() / file.filename());
  out.finish();
  return bytes;
}

std::vector<fs::path> files_beside_weights(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && (std::ranges::find(kOfModel, name) != kOfModel.end() || belongs_to_tokenizer(name)))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void keep_files(const fs::path& directory, const std::vector<fs::path>& files) {
  if (files.empty()) {
    fs::remove_all(directory);
    return;
  }
  NewDirectory kept(directory, /*overwrite=*/true);
  for (const fs::path& file : files) disk::write_synced(kept.path() / file.filename(), disk::read_text(file));
  kept.finish();
}

bool belongs_to_tokenizer(const fs::path& file) {
  const std::string name = file.filename().string();
  return std::ranges::find(kOfTokenizer, name) != kOfTokenizer.end() || name.ends_with(kRanks);
}

}  // namespace axonn
