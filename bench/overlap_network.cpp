#include "overlap_network.hpp"

#include <functional>
#include <utility>
#include <vector>

#include <ATen/ops/arange.h>

#include "axonn/model/decoder/model.hpp"
#include "axonn/model/unet/model.hpp"

namespace axonn::bench {
namespace {

// Implements only the functions that a step needs.
class MadeUpTask final : public TrainTask {
 public:
  using Inputs = std::function<std::vector<at::Tensor>(int64_t first, int64_t count)>;
  using LossSum = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;
  MadeUpTask(int64_t terms, Inputs inputs, LossSum loss_sum)
      : terms_(terms), inputs_(std::move(inputs)), loss_sum_(std::move(loss_sum)) {}

  TaskWords words() const override { return {.samples = "samples", .terms = "terms", .short_terms = "terms"}; }
  int64_t tokens_per_sample() const override { return terms_; }
  double flops_per_sample() const override { return 0; }
  double paper_flops_per_sample() const override { return 0; }
  std::vector<at::Tensor> inputs(int64_t first, int64_t count) override { return inputs_(first, count); }
  at::Tensor loss_sum(const std::vector<at::Tensor>& inputs) override { return loss_sum_(inputs); }
  std::optional<double> validate() override { return std::nullopt; }

 private:
  int64_t terms_;
  Inputs inputs_;
  LossSum loss_sum_;
};

}  // namespace

VerifiedNetwork overlap_gpt(Context& context, const DecoderConfig& config) {
  auto model = std::make_shared<Decoder>(context, config);
  const auto inputs = [shape = config.shape](int64_t first, int64_t count) -> std::vector<at::Tensor> {
    const at::Tensor rows = at::arange(first, first + count).unsqueeze(1) * 7;
    return {(rows + at::arange(shape.sequence)).remainder(shape.vocabulary)};
  };
  const auto loss_sum = [model = model.get()](const auto& ids) { return model->loss_sum(ids[0], ids[0]); };
  return {.model = std::move(model), .task = std::make_unique<MadeUpTask>(config.shape.sequence, inputs, loss_sum)};
}

VerifiedNetwork overlap_unet(Context& context, const UnetConfig& config) {
  auto model = std::make_shared<Unet>(context, config);
  const int64_t size = config.shape.image, channels = config.shape.channels;
  const auto inputs = [size, channels](int64_t first, int64_t count) -> std::vector<at::Tensor> {
    const at::Tensor times = at::arange(first, first + count).remainder(1000);
    const at::Tensor waves =
        (times.view({count, 1, 1, 1}) * 7 + at::arange(size * size * channels).view({1, size, size, channels}));
    return {waves.to(at::kFloat).sin(), times};
  };
  const auto loss_sum = [model = model.get()](const auto& both) {
    return (model->forward(both[0], both[1]) - 1).square().sum();
  };
  return {.model = std::move(model),
          .task = std::make_unique<MadeUpTask>(size * size * config.shape.output_channels(), inputs, loss_sum)};
}

}  // namespace axonn::bench
