#pragma once

#include <cstdint>
#include <string>

#include "axonn/network/decoder/decoder_shape.hpp"
#include "model/gguf/gguf_file.hpp"

namespace axonn {

// A network as llama.cpp sees it.
struct GgufNetwork {
  DecoderShape shape;
  std::string architecture;  // "llama", "qwen2", "qwen3" or "gpt2"
  int64_t context = 0;       // tokens of its longest text

  // Whether the architecture rotates neighbours of a head, in the place of its halves.
  bool rotates_neighbours() const { return architecture == "llama"; }
};

// `family`: Hugging Face's model_type. UserError naming what the architecture of llama.cpp lacks.
GgufNetwork gguf_network(const DecoderShape& shape, const std::string& family, int64_t context);

void add_network(const GgufNetwork& network, at::ScalarType dtype, GgufHeader& header);

}  // namespace axonn
