#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/text.hpp"

namespace axonn {

// Sizes of a network under a well-known name.
template <typename Shape>
struct Preset {
  std::string_view name;
  Shape shape;
};

// UserError with the nearest of `names`, or with all of them.
[[noreturn]] inline void refuse_preset(std::string_view name, std::span<const std::string_view> names) {
  const std::string nearest = did_you_mean(name, names);
  throw UserError("network.presets",
                  detail::concatenate("unknown model '", name, "'",
                                      nearest.empty() ? "; the models are " + join(names, ", ") : nearest));
}

// The preset of that name; UserError with the nearest name, or all names, when there is none.
template <typename Shape>
const Preset<Shape>& find_preset(std::span<const Preset<Shape>> presets, std::string_view name) {
  const auto found = std::ranges::find(presets, name, &Preset<Shape>::name);
  if (found != presets.end()) return *found;
  std::vector<std::string_view> names;
  for (const Preset<Shape>& preset : presets) names.push_back(preset.name);
  refuse_preset(name, names);
}

}  // namespace axonn
