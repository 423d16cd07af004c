#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace axonn {

// How join() writes a part: text as it is, a whole number in digits, anything else by its
// to_string().
struct PartText {
  template <typename Part>
  auto operator()(const Part& part) const {
    if constexpr (std::convertible_to<const Part&, std::string_view>)
      return std::string_view(part);
    else if constexpr (std::integral<Part>)
      return std::to_string(part);
    else
      return to_string(part);
  }
};

// {x, z} with ", " -> "x, z". The separator stands between two parts, empty ones too.
template <typename Parts, typename Text = PartText>
std::string join(Parts&& parts, std::string_view separator, const Text& text_of = {}) {
  std::string joined;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) joined.append(separator);
    joined.append(text_of(part));
    first = false;
  }
  return joined;
}

}  // namespace axonn
