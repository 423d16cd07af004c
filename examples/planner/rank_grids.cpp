// Prints the three fastest grids of a network on a number of GPUs: rank_grids 256 unet2b
#include <cstdlib>
#include <iostream>

#include <axonn/core/error.hpp>
#include <axonn/network/decoder/decoder_network.hpp>
#include <axonn/network/decoder/decoder_presets.hpp>
#include <axonn/network/unet/unet_network.hpp>
#include <axonn/network/unet/unet_presets.hpp>
#include <axonn/perfmodel/search/grid_search.hpp>

int main(int argc, char** argv) try {
  const int64_t gpus = argc > 1 ? std::atoll(argv[1]) : 1024;
  const std::string name = argc > 2 ? argv[2] : "gpt80b";
  const axonn::NetworkModel network = name.starts_with("unet")
                                          ? axonn::network_model(name, axonn::find_unet_preset(name).shape)
                                          : axonn::network_model(name, axonn::find_decoder_preset(name).shape);
  const auto found = axonn::search_grids(network, axonn::find_machine("perlmutter"),
                                         {.gpus = gpus, .batch_tokens = network.usual_batch, .top = 3});
  for (const axonn::PlannedLayout& layout : found.layouts)
    std::cout << layout.grid.to_string() << "  " << layout.time.seconds() << " s\n";
  return found.layouts.empty() ? 1 : 0;
} catch (const axonn::Error& error) {
  std::cerr << error.sentence() << "\n";
  return 2;
}
