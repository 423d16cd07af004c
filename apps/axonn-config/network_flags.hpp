#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <axonn/network/gpt/gpt_shape.hpp>
#include <axonn/network/network_model.hpp>
#include <axonn/network/unet/unet_shape.hpp>

namespace CLI {
class App;
}

// Which network, as it was said: a model, sizes, or both (sizes override the model's). 0 or empty: not said.
struct NetworkFlags {
  std::string model;
  int64_t heads = 0;
  int64_t layers = 0, hidden = 0, sequence = 0, vocabulary = 0;  // of a transformer
  bool tied = false;
  int64_t image = 0, channels = 0, base = 0, blocks = 0, groups = 0, classes = 0;  // of a UNet
  std::vector<int64_t> multipliers, attention;
  bool scale_shift = false, learned_variance = false;

  void add_flags(CLI::App& app);
  axonn::NetworkModel network() const;  // UserError
  std::string repeated() const;         // the flags again: " --model unet2b --heads 8"

 private:
  const char* transformers_own() const;  // a flag that was said and only transformers have; nullptr: none
  const char* unets_own() const;
  axonn::GptShape overridden(axonn::GptShape shape) const;
  axonn::UnetShape overridden(axonn::UnetShape shape) const;
};
