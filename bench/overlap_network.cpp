#include "overlap_network.hpp"

#include <ATen/ops/arange.h>

#include "axonn/model/gpt/model.hpp"
#include "axonn/model/unet/model.hpp"

namespace axonn::bench {

OverlapNetwork overlap_gpt(Context& context, const GptConfig& config) {
  auto model = std::make_shared<Gpt>(context, config);
  const auto loss_sum = [model = model.get(), config](int64_t first, int64_t count) {
    const at::Tensor rows = at::arange(first, first + count).unsqueeze(1) * 7;
    const at::Tensor ids = (rows + at::arange(config.shape.sequence)).remainder(config.shape.vocabulary);
    return model->loss_sum(ids, ids);
  };
  return {.module = std::move(model), .loss_sum = loss_sum, .terms = static_cast<double>(config.shape.sequence)};
}

OverlapNetwork overlap_unet(Context& context, const UnetConfig& config) {
  auto model = std::make_shared<Unet>(context, config);
  const int64_t size = config.shape.image, channels = config.shape.channels;
  const auto loss_sum = [model = model.get(), size, channels](int64_t first, int64_t count) {
    const at::Tensor times = at::arange(first, first + count).remainder(1000);
    const at::Tensor waves = (times.view({count, 1, 1, 1}) * 7 + at::arange(size * size * channels).view({1, size, size, channels}));
    return (model->forward(waves.to(at::kFloat).sin(), times) - 1).square().sum();
  };
  const auto terms = static_cast<double>(size * size * config.shape.output_channels());
  return {.module = std::move(model), .loss_sum = loss_sum, .terms = terms};
}

}  // namespace axonn::bench
