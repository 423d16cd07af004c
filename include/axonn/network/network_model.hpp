#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "axonn/network/layer_table.hpp"
#include "axonn/network/memory.hpp"

namespace axonn {

// What the planner needs to know about a network. Each kind of network has a function that returns
// one.
struct NetworkModel {
  std::string name;
  LayerTable layers;
  std::string program;            // name of the trainer: "gpt", "unet"
  std::string tokens, samples;    // in words: "tokens" and "sequences"; both are "images" for a UNet
  int64_t tokens_per_sample = 0;  // an image counts as one token, as in the trainer
  int64_t usual_batch = 0;        // default tokens per step
  int64_t parameters = 0;
  // Why a grid is impossible, such as "heads % x"; nothing when it is possible.
  std::function<std::optional<std::string>(const GridShape&)> why_impossible;
  std::function<MemoryPrediction(const GridShape&, const MemoryOptions&)> memory;
};

}  // namespace axonn
