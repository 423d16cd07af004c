#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "axonn/network/layer_table.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/network/sizes.hpp"

namespace axonn {

// A network as the planner knows it. Each kind of network has a function that returns one.
struct NetworkModel {
  std::string name;
  LayerTable layers;
  int64_t blocks = 0;             // how many blocks hold the entries of the table that are in_block
  std::string program;            // name of the trainer: "gpt", "unet"; empty: no program of ours trains it
  std::string beyond_programs;    // parts of it that no program of ours trains
  std::string tokens, samples;    // in words: "tokens" and "sequences"; both are "images" for a UNet
  int64_t tokens_per_sample = 0;  // an image counts as one token, as in the trainer
  int64_t usual_batch = 0;        // default tokens per step
  int64_t parameters = 0;
  int64_t active_parameters = 0;  // elements that one token meets; 0: all
  bool divides_norms = false;     // its norms are of single rows, which ranks along X may divide (NormRows)
  std::vector<NamedSize> sizes;   // those that a reader checks first
  // Why a grid is impossible, such as "heads % x"; nothing when it is possible.
  std::function<std::optional<std::string>(const GridShape&)> why_impossible;
  std::function<MemoryPrediction(const GridShape&, const MemoryOptions&)> memory;
};

}  // namespace axonn
