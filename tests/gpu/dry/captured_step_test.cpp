// A whole step of GPT and of the UNet, from samples on the device to the update, asks for nothing
// that a stream under capture forbids.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <c10/cuda/CUDAGuard.h>

#include "axonn/layers/loss.hpp"
#include "axonn/model/gpt/model.hpp"
#include "axonn/model/unet/diffusion.hpp"
#include "axonn/model/unet/model.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/train/passes.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

// What the dry GPU refused so far in this process, with the callers.
std::string refused() {
  std::ifstream record(std::getenv("DRY_GPU_RECORD"));
  std::string text;
  for (std::string line; std::getline(record, line);)
    if (line.find("\trefused\t") != std::string::npos) text += line + "\n";
  return text;
}

// Samples that are on the device: their copies come before a capture.
class OnDevice : public TrainTask {
 public:
  explicit OnDevice(std::function<at::Tensor()> loss_sum) : loss_sum_(std::move(loss_sum)) {}
  TaskWords words() const override { return {.samples = "samples", .terms = "samples", .short_terms = "samples"}; }
  int64_t tokens_per_sample() const override { return 1; }
  double flops_per_sample() const override { return 1; }
  double paper_flops_per_sample() const override { return 1; }
  at::Tensor loss_sum(int64_t, int64_t) override { return loss_sum_(); }
  std::optional<double> validate() override { return std::nullopt; }

 private:
  std::function<at::Tensor()> loss_sum_;
};

// Three steps make what is made at first use; the fourth is captured. `ahead`: the loss stays on
// the device.
void capture_step(Context& context, torch::nn::Module& model, std::function<at::Tensor()> loss_sum, bool ahead) {
  const Parameters parameters = context.materialize(model, 1);
  const auto optimizer = make_optimizer(context, parameters, {.learning_rate = 1e-4});
  OnDevice task(std::move(loss_sum));
  const BatchPlan plan = plan_batch(4, 2, context.shape(), context.at());
  const auto step = [&](int64_t number) {
    optimizer->prepare();
    const PassLosses losses = run_passes(context, task, plan, number);
    UpdateOptions options{.max_norm = 1.0};
    if (ahead) options.loss = losses.means.sum();
    optimizer->step(options);
  };
  const auto stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  for (int64_t number = 0; number < 3; ++number) step(number);
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  try {
    step(3);
  } catch (const std::exception&) {
    EXPECT_THROW(graph.capture_end(), c10::Error);
    throw;
  }
  graph.capture_end();
  graph.replay();
}

void capture_gpt(const ContextOptions& options, const GptConfig& config, bool ahead = true) {
  Context context(test_environment(), {}, options);
  Gpt model(context, config);
  const auto all = at::arange(2 * 65, at::kLong).mul(31).remainder(101).view({2, 65}).to(context.options().device);
  const at::Tensor ids = all.narrow(1, 0, 64).contiguous(), targets = all.narrow(1, 1, 64).contiguous();
  capture_step(context, model, [&] { return model.loss_sum(ids, targets); }, ahead);
}

const GptShape kShape = {.layers = 2, .hidden = 128, .heads = 2, .sequence = 64, .vocabulary = 5000};
const ContextOptions kBf16 = {.dtype = at::kBFloat16, .device = c10::kCUDA};

TEST(CapturedStep, OfGpt) { EXPECT_NO_THROW(capture_gpt(kBf16, {.shape = kShape})) << refused(); }

TEST(CapturedStep, OfGptWithDropoutAndCheckpointing) {
  EXPECT_NO_THROW(capture_gpt(kBf16, {.shape = kShape, .dropout = 0.1, .checkpoint_every = 1})) << refused();
}

TEST(CapturedStep, OfGptWithAllSwitches) {
  const auto switches = {"AXONN_FUSED_CROSS_ENTROPY", "AXONN_FUSED_EMBEDDING", "AXONN_FUSED_LAYER_NORM",
                         "AXONN_FUSED_ADAMW", "AXONN_PRODUCT_EPILOGUES"};
  for (const char* name : switches) ::setenv(name, "1", 1);
  EXPECT_NO_THROW(capture_gpt(kBf16, {.shape = kShape})) << refused();
  for (const char* name : switches) ::unsetenv(name);
}

void capture_unet() {
  Context context(test_environment(), {}, kBf16);
  const c10::Device device = context.options().device;
  Unet model(context, {.shape = {.image = 16, .base = 32, .multipliers = {1, 2}, .blocks = 1, .attention = {8}},
                       .dropout = 0.1});
  const Diffusion diffusion({}, device);
  const at::Tensor clean = at::randn({2, 16, 16, 3}, at::kFloat).to(device), noise = at::randn_like(clean),
                   times = at::arange(2, at::kLong).to(device);
  const auto loss_sum = [&] {
    const at::Tensor noisy = diffusion.noised(clean, times, noise);
    return diffusion.losses(model.forward(noisy.to(at::kBFloat16), times), clean, times, noise).sum();
  };
  capture_step(context, model, loss_sum, /*ahead=*/true);
}

TEST(CapturedStep, OfTheUnet) { EXPECT_NO_THROW(capture_unet()) << refused(); }

TEST(CapturedStep, OfTheUnetWithAllSwitches) {
  const auto switches = {"AXONN_FUSED_GROUP_NORM", "AXONN_FUSED_ADAMW"};
  for (const char* name : switches) ::setenv(name, "1", 1);
  EXPECT_NO_THROW(capture_unet()) << refused();
  for (const char* name : switches) ::unsetenv(name);
}

TEST(CapturedStep, ThatWaitsForItsNormIsRefused) {
  EXPECT_ANY_THROW(capture_gpt(kBf16, {.shape = kShape}, /*ahead=*/false));
  EXPECT_NE(refused().find("cudaStreamSynchronize"), std::string::npos) << refused();
}

}  // namespace
}  // namespace axonn
