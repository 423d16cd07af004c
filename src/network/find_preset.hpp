#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"

namespace axonn {

// The preset of that name; UserError with the nearest name, or all names, when there is none.
template <typename Preset>
const Preset& find_preset(std::span<const Preset> presets, std::string_view name) {
  const auto found = std::ranges::find(presets, name, &Preset::name);
  if (found != presets.end()) return *found;
  std::vector<std::string_view> names;
  std::string all;
  for (const Preset& preset : presets) {
    names.push_back(preset.name);
    all.append(all.empty() ? "" : ", ").append(preset.name);
  }
  const std::string nearest = did_you_mean(name, std::span<const std::string_view>(names));
  throw UserError("network.presets",
                  detail::concatenate("unknown model '", name, "'", nearest.empty() ? "; the models are " + all : nearest));
}

}  // namespace axonn
