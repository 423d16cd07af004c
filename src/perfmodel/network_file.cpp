#include "axonn/perfmodel/network_file.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "axonn/core/error.hpp"
#include "axonn/hugging_face/config_file.hpp"
#include "axonn/perfmodel/network_options.hpp"
#include "config/toml_section.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "perfmodel.network_file";

// The sizes to begin with: the preset's of that name; else those of the network that knows most of
// these keys, the first one of equals.
NetworkShape base_of(const std::string& preset, const toml::table& model) {
  std::vector<std::string> given;
  for (const auto& entry : model)
    if (entry.first.str() != "model" && entry.first.str() != "dropout") given.emplace_back(entry.first.str());
  std::optional<NetworkShape> named, likely;
  size_t most = 0;
  for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    const auto keys = size_keys<Shape>(SizesFor::planner_files);
    const auto known = static_cast<size_t>(std::ranges::count_if(
        given, [&](const std::string& key) { return std::ranges::find(keys, key) != keys.end(); }));
    if (!likely || known > most) likely = Sizes<Shape>::base(given), most = known;
    const auto found = std::ranges::find(Sizes<Shape>::presets(), preset, &Preset<Shape>::name);
    if (found != Sizes<Shape>::presets().end()) named = found->shape;
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
Shape read_sizes(std::string_view text, const std::string& name, const std::string& preset, Shape shape) {
  if (!preset.empty()) find_preset(Sizes<Shape>::presets(), preset);  // its error
  OptionTable table;
  std::string model;
  double dropout = 0;
  table.add("model", "model", model, "preset");
  bind_sizes(table, "model", shape, SizesFor::planner_files);
  table.add("model", "dropout", dropout, "changes no size");
  const auto places = places_of_sizes<Shape>();
  table.read_toml(text, name, {places.begin(), places.end()});
  require_sizes(table, shape, name);
  assume_data(shape);
  return shape;
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

NetworkShape network_of_toml(std::string_view text, const std::string& name) {
  const TomlFile file = parse_toml(text, name);
  const toml::node* node = file.table.get("model");
  AXONN_CHECK(node != nullptr && node->is_table(), kWhere, file.name, ":1: section [model] is missing");
  const std::string preset = TomlSection(file, *node->as_table(), "[model]").find_text("model").value_or("");
  return std::visit([&](const auto& base) -> NetworkShape { return read_sizes(text, name, preset, base); },
                    base_of(preset, *node->as_table()));
}

NetworkShape find_network(const std::string& name_or_file) {
  if (name_or_file.ends_with(".toml")) return network_of_toml(read_toml_text(name_or_file), name_or_file);
  if (name_or_file.ends_with(".json")) return read_config_sizes(name_or_file);
  if (std::filesystem::exists(std::filesystem::path(name_or_file) / "config.json"))
    return read_config_sizes(std::filesystem::path(name_or_file) / "config.json");
  return find_named(name_or_file);
}

std::string network_toml(const NetworkShape& shape) {
  const bool trained = !network_model("network_toml", shape).program.empty();
  return std::visit(
      [&](auto sizes) {
        OptionTable table;
        const SizesFor files = is_plain(sizes) ? SizesFor::plain_files : SizesFor::trainer_files;
        bind_sizes(table, "model", sizes, trained ? files : SizesFor::planner_files);
        return table.to_toml();
      },
      shape);
}

}  // namespace axonn
