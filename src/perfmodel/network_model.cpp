#include "axonn/perfmodel/network_model.hpp"

#include <array>
#include <fstream>
#include <limits>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/perfmodel/gpt_presets.hpp"
#include "perfmodel/toml_section.hpp"

namespace axonn {
namespace {

// Far beyond any network; within them no product of sizes overflows.
constexpr int64_t kMostLayers = 10'000, kMostHidden = 1 << 20, kMostTokens = 1 << 24;

void check_sizes(const TransformerShape& shape, const std::string& name) {
  check_transformer(shape);
  const auto at_most = [&](int64_t value, int64_t most, const char* what) {
    AXONN_CHECK(value <= most, "perfmodel.network_model", name, ": ", what, " must be at most ", most, ", got ", value);
  };
  at_most(shape.layers, kMostLayers, "layers");
  at_most(shape.hidden, kMostHidden, "hidden");
  at_most(shape.sequence, kMostTokens, "sequence");
  at_most(shape.vocabulary, kMostTokens, "vocabulary");
}

std::string toml_of(const TransformerShape& shape) {
  return detail::concatenate("[model]\nlayers = ", shape.layers, "\nhidden = ", shape.hidden, "\nheads = ", shape.heads,
                             "\nsequence = ", shape.sequence, "\nvocab = ", shape.vocabulary,
                             "\ntied = ", shape.tied_head ? "true" : "false", "\n");
}

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

}  // namespace

NetworkModel transformer_model(std::string name, const TransformerShape& shape) {
  check_sizes(shape, name);
  return {.name = std::move(name),
          .layers = layer_table(shape),
          .tokens_per_sample = shape.sequence,
          .parameters = count_parameters(shape).total(),
          .misfit = [shape](const GridShape& grid) -> std::optional<std::string> {
            if (shape.heads % grid.x != 0) return "heads % x";
            if (shape.hidden % grid.y != 0) return "hidden % y";
            return std::nullopt;
          },
          .memory = [shape](const GridShape& grid, const MemoryOptions& options) { return predict_memory(shape, grid, options); },
          .toml = [shape] { return toml_of(shape); }};
}

TransformerShape find_transformer(const std::string& name_or_file) {
  if (name_or_file.ends_with(".toml")) return read_transformer_toml(name_or_file);
  if (name_or_file.ends_with(".json")) return read_transformer_json(name_or_file);
  return find_gpt_preset(name_or_file).shape;
}

TransformerShape read_transformer_toml(const std::filesystem::path& path) {
  const TomlFile file = read_toml_file(path);
  const toml::node* node = file.table.get("model");
  AXONN_CHECK(node != nullptr && node->is_table(), "perfmodel.network_model", file.name, ":1: section [model] is missing");
  TomlSection model(file, *node->as_table(), "[model]");
  TransformerShape shape;
  if (const auto preset = model.find_text("model"); preset && !preset->empty()) shape = find_gpt_preset(*preset).shape;
  const bool whole = shape.layers > 0;
  const auto read = [&](const char* key, int64_t& size, int64_t least, int64_t most) {
    if (whole) {
      if (const auto given = model.find_integer(key, least, most); given && *given > 0) size = *given;
    } else {
      size = model.integer(key, least, most);
    }
  };
  read("layers", shape.layers, 1, kMostLayers);
  read("hidden", shape.hidden, 1, kMostHidden);
  read("heads", shape.heads, 1, kMostHidden);
  read("sequence", shape.sequence, 1, kMostTokens);
  read("vocab", shape.vocabulary, 0, kMostTokens);
  if (shape.vocabulary == 0) shape.vocabulary = 256;  // the tokenizer's: bytes
  shape.tied_head = model.find_flag("tied").value_or(shape.tied_head);
  model.refuse_unknown_keys({"dropout"});
  check_sizes(shape, file.name);
  return shape;
}

TransformerShape read_transformer_json(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string name = path.string();
  AXONN_CHECK(in && std::filesystem::is_regular_file(path), "perfmodel.network_model", "cannot read ", name);
  const auto file = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  AXONN_CHECK(file.is_object(), "perfmodel.network_model", name, " is not a JSON object");
  TransformerShape shape = {.layers = json_size(file, name, {"n_layer", "num_hidden_layers"}),
                            .hidden = json_size(file, name, {"n_embd", "hidden_size"}),
                            .heads = json_size(file, name, {"n_head", "num_attention_heads"}),
                            .sequence = json_size(file, name, {"n_positions", "max_position_embeddings"}),
                            .vocabulary = json_size(file, name, {"vocab_size"}),
                            .tied_head = true};
  if (const auto tied = file.find("tie_word_embeddings"); tied != file.end() && tied->is_boolean()) shape.tied_head = tied->get<bool>();
  check_sizes(shape, name);
  return shape;
}

}  // namespace axonn
