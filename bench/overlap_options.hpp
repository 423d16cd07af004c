#pragma once

#include <cstdint>
#include <string>

#include "axonn/model/gpt/config.hpp"
#include "axonn/model/unet/config.hpp"
#include "axonn/overlap/step/overlap_policy.hpp"

namespace axonn::bench {

struct OverlapOptions {
  std::string grid = "1x1x4x1";
  std::string network = "gpt";
  GptConfig gpt = {.shape = {.layers = 6, .hidden = 256, .heads = 8, .sequence = 128, .vocabulary = 512}};

}  // namespace axonn::bench
