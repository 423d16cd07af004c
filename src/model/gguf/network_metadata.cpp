#include "model/gguf/network_metadata.hpp"

#include <string_view>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"

namespace axonn {
namespace {

// Parts of the network that llama.cpp's architecture has not. Empty: it has all.
std::string beyond(const GgufNetwork& network) {
  const DecoderShape& shape = network.shape;
  std::vector<std::string> parts;
  const auto say = [&](bool there, std::string what) {
    if (there) parts.push_back(std::move(what));
  };
  say(shape.windowed() > 0 && shape.window < network.context,
      detail::concatenate("windows of ", shape.window, " tokens in texts of up to ", network.context));
  if (network.architecture == "llama" || network.architecture == "gpt2") return join(parts, ", ");
  say(shape.rope_factor > 1, "Llama 3.1's rotations");
  say(network.architecture == "qwen2" && shape.attended() != shape.hidden, "heads that are not hidden / heads wide");
  say(network.architecture == "qwen3" && shape.qkv_bias, "biases of attention");
  return join(parts, ", ");
}

int64_t file_type(at::ScalarType dtype) { return dtype == at::kFloat ? 0 : dtype == at::kHalf ? 1 : 32; }

}  // namespace

GgufNetwork gguf_network(const DecoderShape& shape, const std::string& family, int64_t context) {
  const GgufNetwork network = {shape, family == "mistral" ? "llama" : family, context};
  const std::string missing = beyond(network);
  AXONN_CHECK(missing.empty(), "model.gguf", "llama.cpp's architecture ", network.architecture, " has no ", missing,
              ", so this network cannot be written as a GGUF file; write a directory of Hugging Face's");
  return network;
}

void add_network(const GgufNetwork& network, at::ScalarType dtype, GgufHeader& header) {
  const DecoderShape& shape = network.shape;
  const auto key = [&](std::string_view name) { return network.architecture + "." + std::string(name); };
  header.add_text("general.architecture", network.architecture);
  header.add_number("general.file_type", file_type(dtype));
  header.add_number(key("vocab_size"), shape.vocabulary);
  header.add_number(key("context_length"), network.context);
  header.add_number(key("embedding_length"), shape.hidden);
  header.add_number(key("block_count"), shape.layers);
  header.add_number(key("feed_forward_length"), shape.mlp());
  header.add_number(key("attention.head_count"), shape.heads);
  if (network.architecture == "gpt2") {
    header.add_real(key("attention.layer_norm_epsilon"), shape.norm_epsilon);
    return;
  }
  header.add_number(key("attention.head_count_kv"), shape.keys());
  header.add_number(key("attention.key_length"), shape.features_of_head());
  header.add_number(key("attention.value_length"), shape.features_of_head());
  header.add_real(key("attention.layer_norm_rms_epsilon"), shape.norm_epsilon);
  header.add_number(key("rope.dimension_count"), shape.features_of_head());
  header.add_real(key("rope.freq_base"), shape.rope_theta);
}

}  // namespace axonn
