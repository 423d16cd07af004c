#include "axonn/overlap/step/overlap_policy.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"

namespace axonn {
namespace {

struct Switch {
  std::string_view name;
  bool OverlapPolicy::*on;
};

constexpr std::array<Switch, 5> kSwitches = {{{"all-reduce", &OverlapPolicy::all_reduce},
                                              {"reduce-scatter", &OverlapPolicy::reduce_scatter},
                                              {"all-gather", &OverlapPolicy::all_gather},
                                              {"cache", &OverlapPolicy::cache},
                                              {"buckets", &OverlapPolicy::buckets}}};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

}  // namespace

void OverlapPolicy::set_switches(std::string_view list) {
  const bool every = list == "all";
  for (const Switch& each : kSwitches) this->*each.on = every;
  if (every || list == "none") return;
  while (true) {
    const auto comma = list.find(',');
    const std::string_view name = trimmed(list.substr(0, comma));
    AXONN_CHECK(name != "all" && name != "none", "overlap.overlap_policy", "overlap '", name, "' stands alone, without other names");
    const auto found = std::ranges::find(kSwitches, name, &Switch::name);
    if (found == kSwitches.end()) {
      std::array<std::string_view, kSwitches.size() + 2> names = {"all", "none"};
      std::ranges::transform(kSwitches, names.begin() + 2, &Switch::name);
      throw UserError("overlap.overlap_policy", "unknown overlap '" + std::string(name) + "'" + did_you_mean(name, names) +
                                                 " (all, none, or a list of all-reduce, reduce-scatter, all-gather, cache, buckets)");
    }
    this->*found->on = true;
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

void OverlapPolicy::set_cache_budget(std::string_view budget) {
  constexpr std::string_view kLayers = "layers";
  const OverlapPolicy unlimited;
  budget = trimmed(budget);
  if (!budget.ends_with(kLayers)) {
    cache_bytes = parse_count(budget, "the cache of gathered weights");
    cache_layers = unlimited.cache_layers;
    return;
  }
  const std::string_view number = trimmed(budget.substr(0, budget.size() - kLayers.size()));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), cache_layers);
  AXONN_CHECK(error == std::errc() && end == number.data() + number.size() && cache_layers >= 0, "overlap.overlap_policy",
              "the cache of gathered weights must be bytes such as 512M, or a count such as '8 layers', got '", budget, "'");
  cache_bytes = int64_t{1} << 60;
}

std::string OverlapPolicy::switches() const {
  std::string names;
  for (const Switch& each : kSwitches)
    if (this->*each.on) names += (names.empty() ? "" : ",") + std::string(each.name);
  return names.empty() ? "none" : names;
}

}  // namespace axonn
