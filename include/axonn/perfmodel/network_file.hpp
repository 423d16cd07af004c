#pragma once

#include <string>
#include <string_view>

#include "axonn/network/networks.hpp"

namespace axonn {

// Takes the name of a preset (gpt80b, unet2b), a TOML file of `gpt` or `unet` (.toml), or Hugging
// Face's config.json (.json). Of a TOML file it reads [model], and the words in other sections that
// change a size. The network is the one that has the file's preset, else the one that knows most of
// its keys. Of a config.json `model_type` decides; the sequence is the longest that the file
// allows. UserError with the nearest name, or with file:line and key, and for a config.json of a
// network that the planner does not know.
NetworkShape find_network(const std::string& name_or_file);

// The same for the text of a TOML file; `name` is used in errors.
NetworkShape network_of_toml(std::string_view text, const std::string& name);

// The part of the trainer's file that describes the network: [model], and the words in other
// sections that change a size.
std::string network_toml(const NetworkShape& shape);

}  // namespace axonn
