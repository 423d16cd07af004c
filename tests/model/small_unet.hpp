#pragma once

#include <memory>
#include <utility>

#include "axonn/tasks/images/image_task.hpp"
#include "axonn/train/verification.hpp"

namespace axonn::test {

// Channels and heads divide by every axis of a grid of so many ranks.
inline UnetConfig small_unet(int ranks) {
  return {.shape = {.image = 4,
                    .base = 2 * ranks,
                    .multipliers = {1, 2},
                    .blocks = 1,
                    .attention = {2},
                    .heads = ranks,
                    .groups = 2,
                    .classes = 4},
          .dropout = 0.1};
}

// In training on 100 images of shapes.
inline MakeNetwork unet_on_shapes(const UnetConfig& config) {
  const std::shared_ptr<ImageSource> shapes = make_shapes(config.shape.image, 100, 1);
  const auto process = std::make_shared<Diffusion>(DiffusionOptions{.times = 100}, c10::kCPU);
  return [shapes, process, config](Context& context) {
    auto network = std::make_shared<Unet>(context, config);
    auto task = std::make_unique<ImageTask>(context, *network, *process, *shapes, nullptr, ImageTaskOptions{.seed = 1});
    return VerifiedNetwork{.model = std::move(network), .task = std::move(task)};
  };
}

}  // namespace axonn::test
