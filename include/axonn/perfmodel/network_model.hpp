#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "axonn/perfmodel/layer_table.hpp"
#include "axonn/perfmodel/memory.hpp"
#include "axonn/perfmodel/transformer.hpp"

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
  std::function<std::string()> toml;  // [model] of the trainer's file, and what of its [diffusion] changes the network
};

// UserError for sizes that are none, or beyond any network. `name` stands in errors and reports.
NetworkModel transformer_model(std::string name, const TransformerShape& shape);
NetworkModel unet_model(std::string name, const UnetShape& shape);

using NetworkShape = std::variant<TransformerShape, UnetShape>;

// A preset (gpt80b, unet2b), a TOML file as `gpt` and `unet` read it (its section [model]; the others are the trainer's), or Hugging Face's
// config.json of a GPT-2 like network. Files are told by .toml and .json, and a UNet's TOML file by a preset of that name or a key that
// UNets alone have (base, multipliers). UserError with the nearest name, or with file:line and key.
NetworkShape find_network(const std::string& name_or_file);

}  // namespace axonn
