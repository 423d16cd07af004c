#pragma once

#include <span>
#include <string_view>

#include "axonn/network/gpt/gpt_shape.hpp"

namespace axonn {

struct GptPreset {
  std::string_view name;
  GptShape shape;
};

// gpt-tiny, gpt-124m (GPT-2's smallest) and gpt5b .. gpt80b: Table I of the AxoNN paper, which leaves out sequence (here 2048) and
// vocabulary (here 51200).
std::span<const GptPreset> gpt_presets();

// Throws UserError with the nearest name, or all names, when there is none.
const GptPreset& find_gpt_preset(std::string_view name);

}  // namespace axonn
