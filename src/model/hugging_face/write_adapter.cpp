#include <set>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include "axonn/checkpoint/state_dict_files.hpp"
#include "axonn/core/error.hpp"
#include "axonn/hugging_face/config_file.hpp"
#include "axonn/hugging_face/tensor_names.hpp"
#include "axonn/model/hugging_face/write_model.hpp"
#include "core/files.hpp"
#include "model/hugging_face/new_directory.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "model.write_adapter";
constexpr std::string_view kWeight = ".weight";

bool is_adapted(const DecoderConfig& config, const std::string& weight) {
  if (!weight.ends_with(kWeight)) return false;
  if (weight.ends_with(".attn.qkv.weight")) return config.adapts_qkv();
  if (weight.ends_with(".attn.proj.weight")) return config.adapts_projection();
  return weight.find(".mlp.") != std::string::npos && config.adapts_mlp();
}

// A tensor of the file: some rows of an adapter's A or B.
struct Part {
  std::string name, ours;
  Range rows;
};

struct Parts {
  std::vector<Part> all;
  std::vector<safetensors::View> views;
  std::set<std::string> modules;  // "q_proj"
};

Parts parts_of(const DecoderConfig& config, const std::vector<DecoderTensor>& tensors, at::ScalarType dtype) {
  const int64_t rank = config.low_rank.rank;
  Parts parts;
  const auto add = [&](std::string name, std::string ours, Range rows, int64_t columns) {
    parts.views.push_back({.name = name, .dtype = dtype, .shape = {rows.size(), columns}, .parts = {}});
    parts.all.push_back({std::move(name), std::move(ours), rows});
  };
  for (const DecoderTensor& tensor : tensors) {
    if (!is_adapted(config, tensor.name)) continue;
    const std::string layer = tensor.name.substr(0, tensor.name.size() - kWeight.size());
    int64_t first = 0;
    for (const FilePart& part : tensor.parts) {
      const std::string theirs = part.name.substr(0, part.name.size() - kWeight.size());
      parts.modules.insert(theirs.substr(theirs.rfind('.') + 1));
      const std::string name = "base_model.model." + theirs;
      add(name + ".lora_A.weight", layer + ".lora_a", {first, first + rank}, tensor.shape[1]);
      add(name + ".lora_B.weight", layer + ".lora_b", part.rows, rank);
      first += rank;
    }
  }
  return parts;
}

std::string config_text(const DecoderConfig& config, const std::set<std::string>& modules) {
  const nlohmann::ordered_json file = {{"peft_type", "LORA"},
                                       {"task_type", "CAUSAL_LM"},
                                       {"base_model_name_or_path", ""},
                                       {"r", config.low_rank.rank},
                                       {"lora_alpha", config.low_rank.alpha},
                                       {"lora_dropout", 0.0},
                                       {"bias", "none"},
                                       {"fan_in_fan_out", false},
                                       {"inference_mode", true},
                                       {"target_modules", modules}};
  return file.dump(2) + "\n";
}

}  // namespace

int64_t write_adapter(const std::filesystem::path& directory, const DecoderConfig& config,
                      const std::function<at::Tensor(const std::string&)>& read, const WriteModelOptions& options) {
  const at::NoGradGuard no_grad;
  AXONN_CHECK(config.low_rank.rank > 0, kWhere, "this network has no low-rank products; export it whole");
  const std::string family = write_config(config.shape, "float32").model_type;
  AXONN_CHECK(family != "gpt2", kWhere, "PEFT adapts GPT-2's fused products in another way; export the merged network");
  const Parts parts = parts_of(config, tensor_names(config.shape, family), options.dtype);
  NewDirectory out(directory, options.overwrite);
  safetensors::StateDictWriter file(parts.views, out.path() / "adapter_model.safetensors", 0);
  int64_t bytes = 0;
  for (const Part& part : parts.all) {
    const at::Tensor values =
        safetensors::converted(read(part.ours).narrow(0, part.rows.begin, part.rows.size()), options.dtype, part.name);
    file.append({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
    bytes += static_cast<int64_t>(values.nbytes());
  }
  file.finish();
  disk::write_synced(out.path() / "adapter_config.json", config_text(config, parts.modules));
  out.finish();
  return bytes;
}

}  // namespace axonn
