#include "axonn/terms/overlap_switches.hpp"

#include <algorithm>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "terms.overlap_switches";

[[noreturn]] void refuse(std::string_view name) {
  std::vector<std::string_view> names = {"all", "none"};
  for (const OverlapSwitch& each : kOverlapSwitches) names.push_back(each.name);
  throw UserError(kWhere, detail::concatenate("unknown overlap '", name, "'",
                                              did_you_mean(name, std::span<const std::string_view>(names)), " (",
                                              overlap_switches_help(), ")"));
}

}  // namespace

OverlapSwitches OverlapSwitches::none() { return overlap_switches_of(0); }

OverlapSwitches overlap_switches_of(unsigned bits) {
  OverlapSwitches switches;
  for (size_t i = 0; i < std::size(kOverlapSwitches); ++i) switches.*kOverlapSwitches[i].on = (bits >> i & 1) != 0;
  return switches;
}

OverlapSwitches parse_overlap_switches(std::string_view list) {
  if (list == "all") return {};
  OverlapSwitches switches = OverlapSwitches::none();
  if (list == "none") return switches;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = trimmed(list.substr(begin, end - begin));
    AXONN_CHECK(name != "all" && name != "none", kWhere, "overlap '", name, "' stands by itself, without other names");
    const auto found = std::ranges::find(kOverlapSwitches, name, &OverlapSwitch::name);
    if (found == std::end(kOverlapSwitches)) refuse(name);
    switches.*found->on = true;
    begin = end + 1;
  }
  return switches;
}

std::string to_string(const OverlapSwitches& switches) {
  std::string names;
  for (const OverlapSwitch& each : kOverlapSwitches)
    if (switches.*each.on) names.append(names.empty() ? "" : ",").append(each.name);
  return switches == OverlapSwitches() ? "all" : names.empty() ? "none" : names;
}

std::string overlap_switches_help() {
  std::string names;
  for (const OverlapSwitch& each : kOverlapSwitches) names.append(names.empty() ? "" : ", ").append(each.name);
  return "all, none, or a list of " + names;
}

}  // namespace axonn
