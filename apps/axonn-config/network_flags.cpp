// The network by a model, by size flags, or by both.
#include "network_flags.hpp"

#include <algorithm>
#include <optional>

#include <axonn/core/error.hpp>
#include <axonn/perfmodel/network_file.hpp>
#include <axonn/perfmodel/network_options.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.network";

std::string every_preset() {
  std::string names;
  axonn::for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    names += (names.empty() ? "" : "; ") + axonn::preset_names<Shape>();
  });
  return names;
}

// Whether a network other than `Shape` also has that size.
template <typename Shape>
bool is_shared(const std::string& key) {
  bool shared = false;
  axonn::for_each_network([&]<typename Other>(std::type_identity<Other>) {
    if constexpr (!std::is_same_v<Shape, Other>)
      axonn::Sizes<Other>::visit([&](const axonn::SizeTerms& terms, auto) { shared = shared || terms.key == key; });
  });
  return shared;
}

std::string flag_of(std::string key) {
  std::ranges::replace(key, '_', '-');
  return "--" + key;
}

// "--layers, --hidden, ... (transformer), or ..."
std::string every_size() {
  std::string sizes;
  axonn::for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    std::string flags;
    for (const std::string& key : axonn::size_keys<Shape>())
      flags.append(flags.empty() ? "" : ", ").append(flag_of(key));
    sizes += (sizes.empty() ? "" : "; or ") + flags + " of a " + std::string(axonn::Sizes<Shape>::kNetwork);
  });
  return sizes;
}

// The flag of a given size that only this network has; empty if none.
template <typename Shape>
std::string given_size(const axonn::OptionTable& table) {
  std::string flag;
  axonn::Sizes<Shape>::visit([&](const axonn::SizeTerms& terms, auto) {
    const std::string key(terms.key);
    const bool given = table.source(key) == axonn::OptionTable::Source::flag && !is_shared<Shape>(key);
    if (given && flag.empty()) flag = flag_of(key);
  });
  return flag;
}

}  // namespace

NetworkFlags::NetworkFlags(axonn::OptionTable& table) : table_(table) {
  table.add(
      "network", "model", model_,
      every_preset() +
          "; a .toml file of the trainer; Hugging Face's config.json of a GPT-2; the flags below override its sizes");
  axonn::for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    axonn::bind_sizes(table, axonn::Sizes<Shape>::kNetwork, std::get<Shape>(given_), axonn::SizesFor::planner_flags);
  });
}

// The words of a UserError for a size that only another network has; empty if none.
std::string NetworkFlags::foreign_flag(const axonn::NetworkShape& shape) const {
  std::string words;
  axonn::for_each_network([&]<typename Other>(std::type_identity<Other>) {
    if (std::holds_alternative<Other>(shape)) return;
    if (const std::string flag = given_size<Other>(table_); !flag.empty())
      words = flag + " is a size of " + std::string(axonn::Sizes<Other>::kNetwork) + "s";
  });
  return words;
}

axonn::NetworkShape NetworkFlags::shape() const {
  std::optional<axonn::NetworkShape> chosen;
  if (!model_.empty()) chosen = axonn::find_network(model_);
  axonn::for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    if (!chosen && !given_size<Shape>(table_).empty()) chosen = Shape();
  });
  AXONN_CHECK(chosen, kWhere, "which network? --model takes ", every_preset(),
              ", or a file; or give sizes: ", every_size());
  const std::string foreign = foreign_flag(*chosen), kind(axonn::network_kind(*chosen));
  AXONN_CHECK(foreign.empty(), kWhere, foreign, ", and ", model_.empty() ? "the other flags describe" : model_ + " is",
              " a ", kind);
  std::visit([&]<typename Shape>(Shape& sizes) { axonn::override_sizes(table_, sizes, std::get<Shape>(given_)); },
             *chosen);
  return *chosen;
}

axonn::NetworkModel NetworkFlags::network() const {
  const axonn::NetworkShape chosen = shape();
  return axonn::network_model(model_.empty() ? std::string(axonn::network_kind(chosen)) : model_, chosen);
}
