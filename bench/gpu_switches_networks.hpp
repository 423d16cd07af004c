// The networks of gpu_switches with samples that need no file.
#pragma once

#include <memory>

#include <torch/nn/module.h>

#include "axonn/data/images/image_data.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/model/decoder/config.hpp"
#include "axonn/model/unet/config.hpp"
#include "axonn/tasks/images/diffusion.hpp"
#include "axonn/train/task.hpp"

namespace axonn::bench {

// A network and its samples. The members are destroyed from the last to the first.
struct SwitchedNetwork {
  std::shared_ptr<Diffusion> diffusion;
  std::shared_ptr<ImageSource> images;
  std::shared_ptr<torch::nn::Module> model;
  std::unique_ptr<TrainTask> task;
};

// Tokens are drawn by Zipf's law over the whole vocabulary: word number w, from 0, as often as
// 1 / (w + 1). So some rows of the embedding are frequent, as in text.
SwitchedNetwork make_switched_gpt(Context& context, const DecoderConfig& config);
// Images of coloured shapes.
SwitchedNetwork make_switched_unet(Context& context, const UnetConfig& config);

}  // namespace axonn::bench
