#include "axonn/perfmodel/network_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/perfmodel/network_options.hpp"
#include "config/toml_section.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "perfmodel.network_file";

int64_t json_size(const nlohmann::json& file, const std::string& name, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = file.find(key);
    if (found == file.end()) continue;
    const bool fits = found->is_number_integer() && found->is_number_unsigned() && found->get<uint64_t>() >= 1 &&
                      found->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
    AXONN_CHECK(fits, kWhere, name, ": '", key, "' must be a whole number from 1, got ", found->dump());
    return found->get<int64_t>();
  }
  std::string all;
  for (const char* key : keys) all.append(all.empty() ? "'" : " or '").append(key).append("'");
  throw UserError(kWhere, detail::concatenate(name, ": ", all, " is missing"));
}

[[noreturn]] void refuse_network(const std::string& name, const std::string& what) {
  throw UserError(
      kWhere,
      detail::concatenate(name, " describes a network ", what,
                          ", and this planner knows networks of GPT-2's shape only: plan one by --layers, --hidden, "
                          "--heads, --sequence and --vocab if it is close enough"));
}

void check_model_type(const nlohmann::json& file, const std::string& name) {
  const auto type = file.find("model_type");
  if (type != file.end() && *type != "gpt2") refuse_network(name, "of model_type " + type->dump());
}

// The planner assumes GPT-2's shape: as many key heads as query heads, learned positions, no gates,
// no experts.
void check_gpt2_shaped(const nlohmann::json& file, const std::string& name, const GptShape& shape) {
  const auto differs = [&](const char* key, int64_t expected) {
    const auto found = file.find(key);
    if (found == file.end() || found->is_null() || *found == expected) return;
    refuse_network(name, detail::concatenate("with ", key, " = ", found->dump(), ", where GPT-2 has ", expected));
  };
  for (const char* key : {"intermediate_size", "ffn_dim"}) differs(key, 4 * shape.hidden);
  differs("num_key_value_heads", shape.heads);
  differs("head_dim", shape.hidden / shape.heads);
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) differs(key, 1);
}

GptShape read_gpt2_json(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string name = path.string();
  AXONN_CHECK(in && std::filesystem::is_regular_file(path), kWhere, "cannot read ", name);
  const auto file = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  AXONN_CHECK(file.is_object(), kWhere, name, " is not a JSON object");
  check_model_type(file, name);
  GptShape shape = {.layers = json_size(file, name, {"n_layer", "num_hidden_layers"}),
                    .hidden = json_size(file, name, {"n_embd", "hidden_size"}),
                    .heads = json_size(file, name, {"n_head", "num_attention_heads"}),
                    .sequence = json_size(file, name, {"n_positions", "max_position_embeddings"}),
                    .vocabulary = json_size(file, name, {"vocab_size"}),
                    .tied_head = true};
  if (const auto inner = file.find("n_inner"); inner != file.end() && !inner->is_null())
    shape.mlp_hidden = json_size(file, name, {"n_inner"});
  check_gpt2_shaped(file, name, shape);
  if (const auto tied = file.find("tie_word_embeddings"); tied != file.end() && tied->is_boolean())
    shape.tied_head = tied->get<bool>();
  return shape;
}

// The network with a preset of that name; else the network that knows most of these keys, the first
// one of equals.
NetworkShape kind_of(const std::string& preset, const toml::table& model) {
  std::optional<NetworkShape> named, likely;
  size_t most = 0;
  for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    const auto keys = size_keys<Shape>();
    const auto known = static_cast<size_t>(std::ranges::count_if(
        model, [&](const auto& entry) { return std::ranges::find(keys, entry.first.str()) != keys.end(); }));
    if (!likely || known > most) likely = Shape(), most = known;
    if (std::ranges::find(Sizes<Shape>::presets(), preset, &Preset<Shape>::name) != Sizes<Shape>::presets().end())
      named = Shape();
  });
  return named.value_or(*likely);
}

void require_sizes(const OptionTable& table, const auto& shape, const std::string& file) {
  using Shape = std::remove_cvref_t<decltype(shape)>;
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto member) {
    if constexpr (std::is_same_v<decltype(shape.*member), const int64_t&>)
      AXONN_CHECK(terms.planner_only || terms.from_data || shape.*member >= terms.least ||
                      table.source(terms.key) != OptionTable::Source::fallback,
                  kWhere, file, ": '", terms.key, "' is missing in [model]");
  });
}

template <typename Shape>
void assume_data(Shape& shape) {
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto member) {
    if constexpr (std::is_same_v<decltype(shape.*member), int64_t&>)
      if (terms.from_data && shape.*member == terms.from_data->number) shape.*member = terms.from_data->assumed;
  });
}

// [model], and the keys in other sections that change a size. Only the trainer reads the rest of
// the file.
template <typename Shape>
std::vector<std::string> places_of_sizes() {
  std::vector<std::string> places = {"model"};
  Sizes<Shape>::visit([&](const SizeTerms& terms, auto) {
    if (terms.word) places.push_back(std::string(terms.word->section) + "." + std::string(terms.word->key));
  });
  return places;
}

template <typename Shape>
Shape read_sizes(const std::string& path, const std::string& preset) {
  Shape shape;
  if (!preset.empty()) shape = find_preset(Sizes<Shape>::presets(), preset).shape;
  OptionTable table;
  std::string model;
  double dropout = 0;
  table.add("model", "model", model, "preset");
  bind_sizes(table, "model", shape, SizesFor::planner_files);
  table.add("model", "dropout", dropout, "changes no size");
  const auto places = places_of_sizes<Shape>();
  table.read_toml_file(path, {places.begin(), places.end()});
  require_sizes(table, shape, path);
  assume_data(shape);
  return shape;
}

NetworkShape read_network_toml(const std::string& path) {
  const TomlFile file = read_toml_file(path);
  const toml::node* node = file.table.get("model");
  AXONN_CHECK(node != nullptr && node->is_table(), kWhere, file.name, ":1: section [model] is missing");
  const std::string preset = TomlSection(file, *node->as_table(), "[model]").find_text("model").value_or("");
  return std::visit([&]<typename Shape>(const Shape&) -> NetworkShape { return read_sizes<Shape>(path, preset); },
                    kind_of(preset, *node->as_table()));
}

NetworkShape find_named(const std::string& name) {
  std::vector<std::string_view> names;
  std::optional<NetworkShape> found;
  for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    for (const Preset<Shape>& preset : Sizes<Shape>::presets()) {
      names.push_back(preset.name);
      if (preset.name == name) found = preset.shape;
    }
  });
  if (!found) refuse_preset(name, names);
  return *found;
}

}  // namespace

NetworkShape find_network(const std::string& name_or_file) {
  if (name_or_file.ends_with(".toml")) return read_network_toml(name_or_file);
  if (name_or_file.ends_with(".json")) return read_gpt2_json(name_or_file);
  return find_named(name_or_file);
}

std::string network_toml(const NetworkShape& shape) {
  return std::visit(
      [](auto sizes) {
        OptionTable table;
        bind_sizes(table, "model", sizes, SizesFor::planner_files);
        return table.to_toml();
      },
      shape);
}

}  // namespace axonn
