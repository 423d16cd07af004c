#pragma once

#include <string>

#include "axonn/network/networks.hpp"

namespace axonn {

// A preset (gpt80b, unet2b), a TOML file as `gpt` and `unet` read it (its section [model]; the others are the trainer's), or Hugging Face's
// config.json of a GPT-2. Files are told by .toml and .json; what network a TOML file describes, by its preset's name or by the network
// that knows most of its keys. UserError with the nearest name, or with file:line and key, and for another network's config.json.
NetworkShape find_network(const std::string& name_or_file);

// What of the trainer's file describes the network: [model], and words elsewhere that change it.
std::string network_toml(const NetworkShape& shape);

}  // namespace axonn
