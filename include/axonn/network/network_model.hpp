#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "axonn/network/layer_table.hpp"
#include "axonn/network/memory.hpp"

namespace axonn {

// What a planner has to know of a network. Another kind of network is another function that makes one of these.
struct NetworkModel {
  std::string name;
  LayerTable layers;
  std::string program;            // of the trainer: "gpt", "unet"
  std::string tokens, samples;    // in words: "tokens" and "sequences"; of a UNet both are "pictures"
  int64_t tokens_per_sample = 0;  // a picture counts as one token, as in the trainer
  int64_t usual_batch = 0;        // tokens of a step when nobody says
  int64_t parameters = 0;
  // Why a grid cannot hold it, such as "heads % x"; nothing when it can.
  std::function<std::optional<std::string>(const GridShape&)> misfit;
  std::function<MemoryPrediction(const GridShape&, const MemoryOptions&)> memory;
};

}  // namespace axonn
