#pragma once

#include <functional>
#include <memory>

#include <torch/nn/module.h>

#include "axonn/layers/context.hpp"
#include "axonn/model/gpt/config.hpp"
#include "axonn/model/unet/config.hpp"

namespace axonn::bench {

// A network and a loss on made-up samples, for measuring steps. Not yet materialized.
struct OverlapNetwork {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(int64_t first, int64_t count)> loss_sum;  // of `count` samples from number `first` on
  double terms = 0;                                                  // that a sample adds to the sum
};

OverlapNetwork overlap_gpt(Context& context, const GptConfig& config);
OverlapNetwork overlap_unet(Context& context, const UnetConfig& config);

}  // namespace axonn::bench
