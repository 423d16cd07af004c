#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/network/decoder/decoder_shape.hpp"

// Hugging Face's config.json, as transformers 4 and 5 write it: which decoder it is.
namespace axonn {

// The sizes of the network. Keys that are missing have the values that the library transformers
// gives them, except sizes without which there is no network. The sequence is the longest that the
// file allows. Mathematics that read_config() refuses make the shape `foreign`. UserError for
// another model_type, and for a variant with other sizes.
DecoderShape read_config_sizes(const std::filesystem::path& path);

// "gpt2, opt, ...": the values of model_type that read_config_sizes() knows.
std::string family_names();

// A network that can be trained.
struct HuggingFaceConfig {
  std::string model_type;  // "llama"
  DecoderShape shape;      // as read_config_sizes(), with rotation and epsilon
  std::string text;        // the file itself
};
// UserError for what read_config_sizes() refuses, and for mathematics that we do not have: another
// model_type than trained_family_names(), rope type, activation, quantized weights.
HuggingFaceConfig read_config(const std::filesystem::path& path);
std::string trained_family_names();

// The tokens that end a text, by generation_config.json of the directory, else by config.json.
// Empty if neither is there or says so. UserError for what are no token ids.
std::vector<int32_t> read_end_tokens(const std::filesystem::path& directory);

// The config.json of a network for transformers 4 and 5, with both forms of its rotation. `dtype`:
// of the weights, "float32", "bfloat16", "float16". `original`: a config.json that the network came
// from, or empty; its family and its other keys are kept if they still describe the network.
// UserError naming the parts that no family of trained_family_names() has.
struct WrittenConfig {
  std::string model_type, text;
};
WrittenConfig write_config(const DecoderShape& shape, std::string_view dtype, const std::string& original = {});

}  // namespace axonn
