// The network by a model, by size flags, or by both.
#include "options/network_flags.hpp"

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
    const std::string more = axonn::preset_names<Shape>();
    if (!more.empty()) names += (names.empty() ? "" : "; ") + more;
  });
  return names;
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
    for (const std::string& key : axonn::size_keys<Shape>(axonn::SizesFor::planner_files))
      flags.append(flags.empty() ? "" : ", ").append(flag_of(key));
    sizes += (sizes.empty() ? "" : "; or ") + flags + " of a " + std::string(axonn::Sizes<Shape>::kNetwork);
  });
  return sizes;
}

// The flags of all given sizes, of any network.
std::vector<std::string> given_sizes(const axonn::OptionTable& table) {
  std::vector<std::string> keys;
  axonn::for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    axonn::Sizes<Shape>::visit([&](const axonn::SizeTerms& terms, auto) {
      std::string key(terms.key);
      const bool given = table.source(key) == axonn::OptionTable::Source::flag;
      if (given && std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
    });
  });
  return keys;
}

template <typename Shape>
bool has_size(const std::string& key) {
  bool has = false;
  axonn::Sizes<Shape>::visit([&](const axonn::SizeTerms& terms, auto) { has = has || terms.key == key; });
  return has;
}

// The first network that has most of these sizes.
axonn::NetworkShape network_with(const std::vector<std::string>& keys) {
  std::optional<axonn::NetworkShape> likely;
  int64_t most = 0;
  axonn::for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    const int64_t known = std::ranges::count_if(keys, has_size<Shape>);
    if (!likely || known > most) likely = axonn::Sizes<Shape>::base(keys), most = known;
  });
  return *likely;
}

// "UNets", or "UNets and decoders": the networks that have this size.
std::string networks_with(const std::string& key) {
  std::string networks;
  axonn::for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    if (!has_size<Shape>(key)) return;
    networks.append(networks.empty() ? "" : " and ").append(axonn::Sizes<Shape>::kNetwork).append("s");
  });
  return networks;
}

}  // namespace

NetworkFlags::NetworkFlags(axonn::OptionTable& table) : table_(table) {
  table.add("network", "model", model_,
            every_preset() +
                "; a .toml file of the trainer; Hugging Face's config.json (gpt2, llama, mistral, qwen, gemma, "
                "mixtral, ...); the flags below override its sizes");
  axonn::for_each_network([&]<typename Shape>(std::type_identity<Shape>) {
    axonn::bind_sizes(table, axonn::Sizes<Shape>::kNetwork, std::get<Shape>(given_), axonn::SizesFor::planner_flags);
  });
}

// A config.json says how long its sequences may be, not how long those of a training run are.
void NetworkFlags::check_sequence(const axonn::NetworkShape& shape) const {
  constexpr int64_t kUsual = 8192;
  if (!model_.ends_with(".json") || table_.source("sequence") == axonn::OptionTable::Source::flag) return;
  const int64_t sequence = axonn::network_model(model_, shape).tokens_per_sample;
  AXONN_CHECK(sequence <= kUsual, kWhere, model_, " allows sequences of ", sequence,
              " tokens: say how long those of the training are, such as --sequence ", kUsual, " or --sequence ",
              sequence);
}

bool NetworkFlags::given() const { return !model_.empty() || !given_sizes(table_).empty(); }

axonn::NetworkShape NetworkFlags::shape() const {
  const std::vector<std::string> given = given_sizes(table_);
  AXONN_CHECK(!model_.empty() || !given.empty(), kWhere, "which network? --model takes ", every_preset(),
              ", or a file; or give sizes: ", every_size());
  axonn::NetworkShape chosen = model_.empty() ? network_with(given) : axonn::find_network(model_);
  std::visit(
      [&]<typename Shape>(Shape& sizes) {
        const auto foreign = std::ranges::find_if_not(given, has_size<Shape>);
        AXONN_CHECK(foreign == given.end(), kWhere, flag_of(*foreign), " is a size of ", networks_with(*foreign),
                    ", and ", model_.empty() ? "the other flags describe" : model_ + " is", " a ",
                    axonn::Sizes<Shape>::kNetwork, ": remove it");
        axonn::override_sizes(table_, sizes, std::get<Shape>(given_));
      },
      chosen);
  check_sequence(chosen);
  return chosen;
}

axonn::NetworkModel NetworkFlags::network() const {
  const axonn::NetworkShape chosen = shape();
  return axonn::network_model(model_.empty() ? std::string(axonn::network_kind(chosen)) : model_, chosen);
}
