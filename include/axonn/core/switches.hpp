#pragma once

#include <array>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace axonn {

template <typename Set>
struct Switch {
  std::string_view name;
  bool Set::* on;
};

// The names of a struct of bools, for flags, files and reports. Specialised for each such struct:
//   template <>
//   struct Switches<OverlapSwitches> {
//     static constexpr std::string_view kWhat = "overlap";  // in errors
//     static constexpr Switch<OverlapSwitches> kAll[] = {{"cache", &OverlapSwitches::cache}, ...};
//   };
template <typename Set>
struct Switches;

template <typename Set>
concept HasSwitches = requires { Switches<Set>::kAll; };

namespace detail {

// Bit i is name i. UserError with the nearest name.
unsigned parse_switch_bits(std::string_view list, std::string_view what, std::span<const std::string_view> names);
std::string switch_bits_text(unsigned bits, std::span<const std::string_view> names);

template <HasSwitches Set>
constexpr auto switch_names() {
  std::array<std::string_view, std::size(Switches<Set>::kAll)> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = Switches<Set>::kAll[i].name;
  return names;
}

}  // namespace detail

// Bit i switches on row i of the table. For loops over all combinations.
template <HasSwitches Set>
constexpr Set switches_of(unsigned bits) {
  Set set;
  for (size_t i = 0; i < std::size(Switches<Set>::kAll); ++i) set.*Switches<Set>::kAll[i].on = (bits >> i & 1) != 0;
  return set;
}

template <HasSwitches Set>
inline constexpr unsigned kSwitchCombinations = 1u << std::size(Switches<Set>::kAll);

// Takes "all", "none", or names with commas between them. UserError with the nearest name.
template <HasSwitches Set>
Set parse_switches(std::string_view list) {
  return switches_of<Set>(detail::parse_switch_bits(list, Switches<Set>::kWhat, detail::switch_names<Set>()));
}

// The text that parse_switches() takes.
template <HasSwitches Set>
std::string to_string(const Set& set) {
  unsigned bits = 0;
  for (size_t i = 0; i < std::size(Switches<Set>::kAll); ++i) bits |= (set.*Switches<Set>::kAll[i].on ? 1u : 0u) << i;
  return detail::switch_bits_text(bits, detail::switch_names<Set>());
}

// "all, none, or a list of all-reduce, reduce-scatter, ...", for help and errors.
std::string switches_help(std::span<const std::string_view> names);
template <HasSwitches Set>
std::string switches_help() {
  return switches_help(detail::switch_names<Set>());
}

}  // namespace axonn
