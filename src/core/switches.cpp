#include "axonn/core/switches.hpp"

#include <algorithm>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "core.switches";

unsigned all_of(std::span<const std::string_view> names) { return (1u << names.size()) - 1; }

[[noreturn]] void refuse(std::string_view name, std::string_view what, std::span<const std::string_view> names) {
  std::vector<std::string_view> words = {"all", "none"};
  words.insert(words.end(), names.begin(), names.end());
  throw UserError(kWhere, detail::concatenate("unknown ", what, " '", name, "'",
                                              did_you_mean(name, std::span<const std::string_view>(words)), " (",
                                              switches_help(names), ")"));
}

}  // namespace

unsigned detail::parse_switch_bits(std::string_view list, std::string_view what,
                                   std::span<const std::string_view> names) {
  if (list == "all") return all_of(names);
  unsigned bits = 0;
  if (list == "none") return bits;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = trimmed(list.substr(begin, end - begin));
    AXONN_CHECK(name != "all" && name != "none", kWhere, what, " '", name,
                "' stands by itself; leave the other names out");
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) refuse(name, what, names);
    bits |= 1u << (found - names.begin());
    begin = end + 1;
  }
  return bits;
}

std::string detail::switch_bits_text(unsigned bits, std::span<const std::string_view> names) {
  if (bits == all_of(names)) return "all";
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    if ((bits >> i & 1) != 0) text.append(text.empty() ? "" : ",").append(names[i]);
  return text.empty() ? "none" : text;
}

std::string switches_help(std::span<const std::string_view> names) {
  std::string text = "all, none, or a list of ";
  for (size_t i = 0; i < names.size(); ++i) text.append(i == 0 ? "" : ", ").append(names[i]);
  return text;
}

}  // namespace axonn
