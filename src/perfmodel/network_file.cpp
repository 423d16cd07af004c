#include "axonn/perfmodel/network_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/network/gpt/gpt_presets.hpp"
#include "axonn/network/unet/unet_presets.hpp"
#include "config/toml_section.hpp"
#include "network/network_limits.hpp"

namespace axonn {
namespace {

bool is_unet(const std::string& preset) { return preset.starts_with("unet"); }

int64_t json_size(const nlohmann::json& file, const std::string& name, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = file.find(key);
    if (found == file.end()) continue;
    const bool fits = found->is_number_integer() && found->is_number_unsigned() && found->get<uint64_t>() >= 1 &&
                      found->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
    AXONN_CHECK(fits, "perfmodel.network_model", name, ": '", key, "' must be a whole number from 1, got ", found->dump());
    return found->get<int64_t>();
  }
  std::string all;
  for (const char* key : keys) all.append(all.empty() ? "'" : " or '").append(key).append("'");
  throw UserError("perfmodel.network_model", detail::concatenate(name, ": ", all, " is missing"));
}

GptShape read_transformer_json(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string name = path.string();
  AXONN_CHECK(in && std::filesystem::is_regular_file(path), "perfmodel.network_model", "cannot read ", name);
  const auto file = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  AXONN_CHECK(file.is_object(), "perfmodel.network_model", name, " is not a JSON object");
  GptShape shape = {.layers = json_size(file, name, {"n_layer", "num_hidden_layers"}),
                            .hidden = json_size(file, name, {"n_embd", "hidden_size"}),
                            .heads = json_size(file, name, {"n_head", "num_attention_heads"}),
                            .sequence = json_size(file, name, {"n_positions", "max_position_embeddings"}),
                            .vocabulary = json_size(file, name, {"vocab_size"}),
                            .tied_head = true};
  if (const auto tied = file.find("tie_word_embeddings"); tied != file.end() && tied->is_boolean()) shape.tied_head = tied->get<bool>();
  return shape;
}

GptShape read_transformer(TomlSection& model, const std::string& preset) {
  GptShape shape;
  if (!preset.empty()) shape = find_gpt_preset(preset).shape;
  const bool whole = shape.layers > 0;
  const auto read = [&](const char* key, int64_t& size, int64_t least, int64_t most) {
    if (whole) {
      if (const auto given = model.find_integer(key, least, most); given && *given > 0) size = *given;
    } else {
      size = model.integer(key, least, most);
    }
  };
  read("layers", shape.layers, 1, limits::kLayers);
  read("hidden", shape.hidden, 1, limits::kHidden);
  read("heads", shape.heads, 1, limits::kHidden);
  read("sequence", shape.sequence, 1, limits::kTokens);
  read("vocab", shape.vocabulary, 0, limits::kTokens);
  if (shape.vocabulary == 0) shape.vocabulary = 256;  // the tokenizer's: bytes
  shape.tied_head = model.find_flag("tied").value_or(shape.tied_head);
  model.refuse_unknown_keys({"dropout"});
  return shape;
}

UnetShape read_unet(const TomlFile& file, TomlSection& model, const std::string& preset) {
  UnetShape shape;
  if (!preset.empty()) shape = find_unet_preset(preset).shape;
  const auto read = [&](const char* key, int64_t& size, int64_t least, int64_t most) {
    if (const auto given = model.find_integer(key, least, most)) size = *given;
  };
  const auto read_list = [&](const char* key, std::vector<int64_t>& sizes, int64_t most) {
    if (auto given = model.find_integers(key, 1, most)) sizes = std::move(*given);
  };
  read("image", shape.image, 1, limits::kImage);
  read("base", shape.base, 1, limits::kChannels);
  read_list("multipliers", shape.multipliers, limits::kChannels);
  read("blocks", shape.blocks, 1, limits::kBlocks);
  read_list("attention", shape.attention, limits::kImage);
  read("heads", shape.heads, 1, limits::kChannels);
  read("groups", shape.groups, 1, limits::kChannels);
  read("classes", shape.classes, -1, limits::kTokens);
  shape.classes = std::max<int64_t>(shape.classes, 0);  // -1: those of the data, which are not known here
  shape.scale_shift = model.find_flag("scale_shift").value_or(shape.scale_shift);
  model.refuse_unknown_keys({"dropout"});
  if (const toml::node* node = file.table.get("diffusion"); node != nullptr && node->is_table()) {
    TomlSection diffusion(file, *node->as_table(), "[diffusion]");
    if (const auto loss = diffusion.find_text("loss")) shape.learned_variance = *loss == "hybrid";
  }
  return shape;
}

NetworkShape read_network_toml(const std::filesystem::path& path) {
  const TomlFile file = read_toml_file(path);
  const toml::node* node = file.table.get("model");
  AXONN_CHECK(node != nullptr && node->is_table(), "perfmodel.network_model", file.name, ":1: section [model] is missing");
  TomlSection model(file, *node->as_table(), "[model]");
  const std::string preset = model.find_text("model").value_or("");
  if (is_unet(preset) || (preset.empty() && (model.has("base") || model.has("multipliers")))) return read_unet(file, model, preset);
  return read_transformer(model, preset);
}

NetworkShape find_named(const std::string& name) {
  std::vector<std::string_view> names;
  std::string all;
  const auto add = [&](std::string_view one) {
    names.push_back(one);
    all.append(all.empty() ? "" : ", ").append(one);
  };
  for (const GptPreset& preset : gpt_presets()) {
    if (preset.name == name) return preset.shape;
    add(preset.name);
  }
  for (const UnetPreset& preset : unet_presets()) {
    if (preset.name == name) return preset.shape;
    add(preset.name);
  }
  const std::string nearest = did_you_mean(name, std::span<const std::string_view>(names));
  throw UserError("perfmodel.presets",
                  detail::concatenate("unknown model '", name, "'", nearest.empty() ? "; the models are " + all : nearest));
}

}  // namespace

NetworkShape find_network(const std::string& name_or_file) {
  if (name_or_file.ends_with(".toml")) return read_network_toml(name_or_file);
  if (name_or_file.ends_with(".json")) return read_transformer_json(name_or_file);
  return find_named(name_or_file);
}

}  // namespace axonn
