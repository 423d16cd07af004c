#include "gpu_switches_networks.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <ATen/ops/empty.h>

#include "axonn/core/philox.hpp"
#include "axonn/model/decoder/model.hpp"
#include "axonn/model/unet/model.hpp"
#include "axonn/tasks/images/image_task.hpp"
#include "axonn/tasks/text/synthetic_tokens.hpp"

namespace axonn::bench {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kImages = 256;

class ZipfTokens final : public SyntheticTokens {
 public:
  explicit ZipfTokens(Decoder& model) : SyntheticTokens(model, kSeed), sequence_(model.config().shape.sequence) {
    double sum = 0;
    for (int64_t word = 0; word < model.config().shape.vocabulary; ++word)
      up_to_.push_back(sum += 1 / static_cast<double>(word + 1));
  }

  std::vector<at::Tensor> inputs(int64_t first, int64_t count) override {
    const at::Tensor tokens = at::empty({count, sequence_ + 1}, at::kLong);
    int64_t* out = tokens.mutable_data_ptr<int64_t>();
    const uint32_t stream = philox_stream("gpu_switches", "tokens");
    const auto begin = static_cast<uint64_t>(first * (sequence_ + 1));
    for (int64_t i = 0; i < tokens.numel(); ++i) {
      const double drawn = up_to_.back() * to_uniform(philox(kSeed, begin + static_cast<uint64_t>(i), 0, stream)[0]);
      const auto word = std::ranges::upper_bound(up_to_, drawn) - up_to_.begin();
      out[i] = std::min<int64_t>(word, static_cast<int64_t>(up_to_.size()) - 1);
    }
    return {tokens};
  }

 private:
  int64_t sequence_;
  std::vector<double> up_to_;  // the sum of the words' frequencies up to each word
};

}  // namespace

SwitchedNetwork make_switched_gpt(Context& context, const DecoderConfig& config) {
  auto model = std::make_shared<Decoder>(context, config);
  auto task = std::make_unique<ZipfTokens>(*model);
  return {.model = std::move(model), .task = std::move(task)};
}

SwitchedNetwork make_switched_unet(Context& context, const UnetConfig& config) {
  auto model = std::make_shared<Unet>(context, config);
  SwitchedNetwork made{.diffusion = std::make_shared<Diffusion>(DiffusionOptions(), context.options().device),
                       .images = make_shapes(config.shape.image, kImages, kSeed),
                       .model = model};
  made.task = std::make_unique<ImageTask>(context, *model, *made.diffusion, *made.images, nullptr,
                                          ImageTaskOptions{.seed = kSeed});
  return made;
}

}  // namespace axonn::bench
