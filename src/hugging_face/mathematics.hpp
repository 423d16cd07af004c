#pragma once

#include "axonn/hugging_face/config_file.hpp"
#include "hugging_face/config_json.hpp"

namespace axonn {

// The shape with what config.json says of a network's mathematics: the epsilon of norms, rotations,
// which blocks have a window. UserError for what we do not have.
DecoderShape mathematics_of_gpt2(const ConfigJson& file, DecoderShape shape);
DecoderShape mathematics_of_llama(const ConfigJson& file, DecoderShape shape);  // and what follows it

HuggingFaceConfig read_config(const ConfigJson& file);

}  // namespace axonn
