#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/text.hpp"

namespace axonn {

// The names of an enum's values, for flags, files and reports. Specialised for every enum that
// users see, with a table whose rows have a `name` and a `value`:
//   template <>
//   struct Names<Precision> {
//     static constexpr Named<Precision> all[] = {{"bf16", Precision::bf16}, ...};
//   };
template <typename Enum>
struct Names;

template <typename Enum>
struct Named {
  std::string_view name;
  Enum value;
};

template <typename Enum>
concept HasNames = requires { Names<Enum>::all; };

template <HasNames Enum>
constexpr std::string_view to_string(Enum value) {
  for (const auto& row : Names<Enum>::all)
    if (row.value == value) return row.name;
  return "?";
}

// "bf16, fp16, fp32, fp64"
template <HasNames Enum>
std::string all_names(std::string_view separator = ", ") {
  return join(Names<Enum>::all, separator, [](const auto& row) { return row.name; });
}

// UserError "WHAT must be one of bf16, fp16, fp32, fp64, got 'fp8'; did you mean 'fp16'?".
template <HasNames Enum>
Enum parse_name(std::string_view name, std::string_view what) {
  std::string_view names[std::size(Names<Enum>::all)];
  for (size_t i = 0; i < std::size(names); ++i) {
    names[i] = Names<Enum>::all[i].name;
    if (names[i] == name) return Names<Enum>::all[i].value;
  }
  throw UserError("core.names", detail::concatenate(what, " must be one of ", all_names<Enum>(), ", got '", name, "'",
                                                    did_you_mean(name, std::span<const std::string_view>(names))));
}

}  // namespace axonn
