#pragma once

#include <filesystem>
#include <string>

#include "axonn/network/networks.hpp"

namespace axonn {

// The network of a Hugging Face config.json. Keys that are missing have the values that the library
// transformers gives them, except sizes without which there is no network. UserError for another
// model_type, and for a variant that the planner does not know.
DecoderShape read_config_json(const std::filesystem::path& path);

// "gpt2, opt, ...": the values of model_type that read_config_json() knows.
std::string family_names();

}  // namespace axonn
