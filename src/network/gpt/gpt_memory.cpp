#include "axonn/network/gpt/gpt_memory.hpp"

#include "axonn/network/decoder/decoder_network.hpp"
#include "axonn/network/gpt/gpt_layers.hpp"

namespace axonn {

MemoryPrediction predict_memory(const GptShape& shape, const GridShape& grid, const MemoryOptions& options) {
  check_gpt(shape);
  return predict_memory(decoder_of(shape), grid, options);
}

}  // namespace axonn
