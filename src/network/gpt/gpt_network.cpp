#include "axonn/network/gpt/gpt_network.hpp"

#include "axonn/network/decoder/decoder_network.hpp"
#include "axonn/network/gpt/gpt_layers.hpp"

namespace axonn {

NetworkModel network_model(std::string name, const GptShape& shape) {
  check_gpt(shape);
  NetworkModel model = network_model(std::move(name), decoder_of(shape));
  model.program = "gpt";
  GptShape whole = shape;
  whole.mlp_hidden = shape.mlp();
  model.sizes = sizes_of(whole);
  return model;
}

}  // namespace axonn
