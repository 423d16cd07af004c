#pragma once

#include <cstdint>
#include <string>

#include "axonn/model/decoder/config.hpp"
#include "axonn/model/unet/config.hpp"
#include "axonn/overlap/step/overlap_policy.hpp"

namespace axonn::bench {

struct OverlapOptions {
  std::string grid = "1x1x4x1";
  std::string network = "gpt";
  DecoderConfig gpt = {.shape = {.layers = 6, .hidden = 256, .heads = 8, .sequence = 128, .vocabulary = 512}};
  UnetConfig unet = {
      .shape = {.image = 16, .base = 64, .multipliers = {1, 2}, .blocks = 1, .attention = {8}, .heads = 4}};
  int64_t batch = 16;
  int64_t micro_batches = 1;
  int64_t checkpoint_every = 0;
  int repetitions = 7;
  int prefetch = OverlapPolicy().prefetch;
  bool few = false;
  bool schedules = false;  // compare the optimizer's schedules, not the overlaps
  bool bf16 = false;       // weights and activations; only with schedules
};

}  // namespace axonn::bench
