// A whole step of GPT and of the UNet, from samples on the device to the update, asks for nothing
// that a stream under capture forbids.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <c10/cuda/CUDAGuard.h>

#include "axonn/model/decoder/model.hpp"
#include "axonn/model/unet/model.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/tasks/images/diffusion.hpp"
#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "axonn/train/passes.hpp"
#include "support/rank_test.hpp"
#include "train/step/graphed_step.hpp"

namespace axonn {
namespace {

// All that the dry GPU refused so far in this process, with the callers.
std::string refused() {
  std::ifstream record(std::getenv("DRY_GPU_RECORD"));
  std::string text;
  for (std::string line; std::getline(record, line);)
    if (line.find("\trefused\t") != std::string::npos) text += line + "\n";
  return text;
}

// Images, times and noise, the same in every step.
class SameImages : public TrainTask {
 public:
  SameImages(Context& context, Unet& model) : model_(model), diffusion_({}, context.options().device) {}
  TaskWords words() const override { return {.samples = "images", .terms = "images", .short_terms = "images"}; }
  int64_t tokens_per_sample() const override { return 1; }
  double flops_per_sample() const override { return 1; }
  double paper_flops_per_sample() const override { return 1; }
  std::vector<at::Tensor> inputs(int64_t, int64_t count) override {
    const at::Tensor clean = at::randn({count, 16, 16, 3}, at::kFloat);
    return {clean, at::arange(count, at::kLong), at::randn_like(clean)};
  }
  at::Tensor loss_sum(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor noisy = diffusion_.noised(inputs[0], inputs[1], inputs[2]);
    const at::Tensor output = model_.forward(noisy.to(at::kBFloat16), inputs[1]);
    return diffusion_.losses(output, inputs[0], inputs[1], inputs[2]).sum();
  }
  std::optional<double> validate() override { return std::nullopt; }

 private:
  Unet& model_;
  Diffusion diffusion_;
};

// Three steps make what is made at first use; then a step is recorded and launched twice. `ahead`:
// the loss stays on the device.
void capture_step(Context& context, torch::nn::Module& model, TrainTask& task, bool ahead) {
  const Parameters parameters = context.materialize(model, 1);
  const auto optimizer = make_optimizer(context, parameters, OptimizerSettings{.learning_rate = 1e-4});
  const BatchPlan plan = plan_batch(4, 2, context.shape(), context.at());
  const auto step = [&](int64_t number) {
    const PassLosses losses = run_passes(context, task, plan, number);
    UpdateOptions options{.max_norm = 1.0};
    if (ahead) options.loss = losses.means.sum();
    optimizer->step(options);
  };
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  for (int64_t number = 0; number < GraphedStep::kStepsBefore; ++number) step(number);
  if (!ahead) return make_cuda_graph()->record([&] { step(3); });
  const TrainedNetwork network{test_environment(), context, parameters, *optimizer, task};
  GraphedStep graphed(network, plan, {.clip = 1.0}, make_cuda_graph());
  for (int64_t number : {3, 4}) graphed.take(number, 1e-4);
}

void capture_gpt(const ContextOptions& options, const DecoderConfig& config, bool ahead = true) {
  Context context(test_environment(), {}, options);
  Decoder model(context, config);
  SyntheticTokens task(model, 1);
  capture_step(context, model, task, ahead);
}

const DecoderShape kShape = {.layers = 2, .hidden = 128, .heads = 2, .sequence = 64, .vocabulary = 5000};
const ContextOptions kBf16 = {.dtype = at::kBFloat16, .device = c10::kCUDA};

ContextOptions with_own_kernels() {
  ContextOptions options = kBf16;
  options.kernels = KernelChoice::all();
  return options;
}

TEST(CapturedStep, OfGpt) { EXPECT_NO_THROW(capture_gpt(kBf16, {.shape = kShape})) << refused(); }

TEST(CapturedStep, OfGptWithDropoutAndCheckpointing) {
  EXPECT_NO_THROW(capture_gpt(kBf16, {.shape = kShape, .dropout = 0.1, .checkpoint_every = 1})) << refused();
}

TEST(CapturedStep, OfGptWithOurKernels) {
  EXPECT_NO_THROW(capture_gpt(with_own_kernels(), {.shape = kShape})) << refused();
}

void capture_unet(const ContextOptions& options) {
  Context context(test_environment(), {}, options);
  Unet model(context, {.shape = {.image = 16, .base = 32, .multipliers = {1, 2}, .blocks = 1, .attention = {8}},
                       .dropout = 0.1});
  SameImages task(context, model);
  capture_step(context, model, task, /*ahead=*/true);
}

TEST(CapturedStep, OfTheUnet) { EXPECT_NO_THROW(capture_unet(kBf16)) << refused(); }

TEST(CapturedStep, OfTheUnetWithOurKernels) { EXPECT_NO_THROW(capture_unet(with_own_kernels())) << refused(); }

TEST(CapturedStep, ThatWaitsForItsNormIsRefused) {
  EXPECT_ANY_THROW(capture_gpt(kBf16, {.shape = kShape}, /*ahead=*/false));
  EXPECT_NE(refused().find("cudaStreamSynchronize"), std::string::npos) << refused();
}

}  // namespace
}  // namespace axonn
