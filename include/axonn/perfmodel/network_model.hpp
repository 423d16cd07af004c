#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "axonn/perfmodel/layer_table.hpp"
#include "axonn/perfmodel/memory.hpp"
#include "axonn/perfmodel/transformer.hpp"

namespace axonn {

// What a planner has to know of a network. Another kind of network is another function that makes one of these.
struct NetworkModel {
  std::string name;
  LayerTable layers;
  int64_t tokens_per_sample = 0;  // rows that a sample has everywhere
  int64_t parameters = 0;
  // Why a grid cannot hold it, such as "heads % x"; nothing when it can.
  std::function<std::optional<std::string>(const GridShape&)> misfit;
  std::function<MemoryPrediction(const GridShape&, const MemoryOptions&)> memory;
  std::function<std::string()> toml;  // the section [model] of the trainer's file
};

NetworkModel transformer_model(std::string name, const TransformerShape& shape);

// A preset (gpt80b), a TOML file as `gpt` reads it (its section [model]; the others are the trainer's), or Hugging Face's config.json of a
// GPT-2 like network. Files are told by .toml and .json. UserError with the nearest name, or with file:line and key.
TransformerShape find_transformer(const std::string& name_or_file);
TransformerShape read_transformer_toml(const std::filesystem::path& file);
TransformerShape read_transformer_json(const std::filesystem::path& file);

}  // namespace axonn
