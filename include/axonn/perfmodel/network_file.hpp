#pragma once

#include <string>
#include <variant>

#include "axonn/network/gpt/gpt_shape.hpp"
#include "axonn/network/unet/unet_shape.hpp"

namespace axonn {

using NetworkShape = std::variant<GptShape, UnetShape>;

// A preset (gpt80b, unet2b), a TOML file as `gpt` and `unet` read it (its section [model]; the others are the trainer's), or Hugging Face's
// config.json of a GPT-2 like network. Files are told by .toml and .json, and a UNet's TOML file by a preset of that name or a key that
// UNets alone have (base, multipliers). UserError with the nearest name, or with file:line and key.
NetworkShape find_network(const std::string& name_or_file);

}  // namespace axonn
