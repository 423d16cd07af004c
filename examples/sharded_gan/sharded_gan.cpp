// A small DCGAN: two networks of one context that are trained in turns, with their parameters,
// gradients and optimizer state sharded over the ranks. Lines that axonn adds to a plain LibTorch
// program are marked.
//
//   sharded_gan                                     one rank, an ordinary program
//   scripts/mpirun -n 4 sharded_gan 1x1x2x2 out     the same on four ranks, and two files in out/
//   sharded_gan 1x1x1x1 out 5 fp64                  five steps in fp64
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/optim/adam.h>
#include <torch/types.h>

#include <axonn/comm/environment.hpp>
#include <axonn/layers/loss.hpp>
#include <axonn/wrap/frozen_guard.hpp>
#include <axonn/wrap/nn.hpp>
#include <axonn/wrap/state_dict.hpp>

namespace nn = axonn::nn;  // axonn: BatchNorm2d over the rows of all ranks

constexpr int64_t kRows = 32, kNoise = 16;

// From noise of 1 x 1 to an image of 16 x 16.
nn::Sequential make_generator() {
  const auto up = [](int64_t in, int64_t out) {
    return nn::ConvTranspose2d(nn::ConvTranspose2dOptions(in, out, 4).stride(2).padding(1).bias(false));
  };
  return nn::Sequential(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(kNoise, 32, 4).bias(false)), nn::BatchNorm2d(32),
                        nn::ReLU(), up(32, 16), nn::BatchNorm2d(16), nn::ReLU(), up(16, 1), nn::Tanh());
}

nn::Sequential make_discriminator() {
  const auto down = [](int64_t in, int64_t out) {
    return nn::Conv2d(nn::Conv2dOptions(in, out, 4).stride(2).padding(1).bias(false));
  };
  const auto leaky = nn::LeakyReLUOptions().negative_slope(0.2);
  return nn::Sequential(down(1, 16), nn::LeakyReLU(leaky), down(16, 32), nn::BatchNorm2d(32), nn::LeakyReLU(leaky),
                        nn::Conv2d(nn::Conv2dOptions(32, 1, 4).bias(false)));
}

// Discs in many places and of many sizes.
torch::Tensor discs(int64_t step, int64_t first, int64_t rows, torch::Dtype type) {
  const auto number = torch::arange(step * kRows + first, step * kRows + first + rows, torch::kDouble).view({-1, 1, 1});
  const auto at = torch::arange(16, torch::kDouble), radius = 3 + torch::sin(number * 0.7);
  const auto x = at.view({1, 1, -1}) - 8 - 3 * torch::sin(number * 1.3);
  const auto y = at.view({1, -1, 1}) - 8 - 3 * torch::cos(number * 2.1);
  return torch::tanh(radius * radius - x * x - y * y).unsqueeze(1).to(type);
}

int train(const std::string& grid, const std::filesystem::path& out, int64_t steps, torch::Dtype type) {
  axonn::Environment environment;                                                       // axonn
  axonn::Context context(environment, axonn::parse_grid_shape(grid), {.dtype = type});  // axonn
  torch::manual_seed(1);
  auto generator = make_generator(), discriminator = make_discriminator();
  generator->to(type), discriminator->to(type);
  auto drawing = axonn::shard(context, *generator), judging = axonn::shard(context, *discriminator);  // axonn
  const auto options = torch::optim::AdamOptions(2e-3).betas({0.5, 0.999});
  torch::optim::Adam draws(drawing.local(), options), judges(judging.local(), options);  // axonn: local()

  const auto share = context.row_share();  // axonn: which rows are mine
  const int64_t rows = kRows / share.groups, first = share.mine * rows;
  const auto loss = [&](const torch::Tensor& images, bool real) {
    const auto said = discriminator->forward(images).flatten();
    const auto mean = torch::binary_cross_entropy_with_logits(said, torch::full_like(said, real ? 1 : 0));
    return axonn::mean_over_ranks(mean, rows, context);  // axonn
  };
  for (int64_t i = 0; i < steps; ++i) {
    torch::manual_seed(static_cast<uint64_t>(100 + i));  // the noise of all ranks, of which each takes its rows
    const auto noise = torch::randn({kRows, kNoise, 1, 1}, torch::kDouble).narrow(0, first, rows).to(type);
    double of_discriminator = 0;
    {
      const axonn::FrozenGuard frozen(drawing);              // axonn: the discriminator's turn
      auto step = context.begin_step({.micro_batches = 2});  // axonn
      const auto on_real = loss(discs(i, first, rows, type), true);
      on_real.backward();
      const auto on_drawn = loss(generator->forward(noise).detach(), false);
      on_drawn.backward();
      step.finish();  // axonn
      judges.step();
      of_discriminator = on_real.item<double>() + on_drawn.item<double>();
    }
    const axonn::FrozenGuard frozen(judging);  // axonn: the generator's turn
    auto step = context.begin_step();          // axonn
    const auto of_generator = loss(generator->forward(noise), true);
    of_generator.backward();
    step.finish();  // axonn
    draws.step();
    if (environment.rank() == 0 && (i % 10 == 0 || i == steps - 1))
      std::printf("step %2ld  discriminator %.14f  generator %.14f\n", static_cast<long>(i), of_discriminator,
                  of_generator.item<double>());
  }
  if (out.empty()) return 0;
  if (environment.rank() == 0) std::filesystem::create_directories(out);
  axonn::save_state_dict(drawing, out / "generator.safetensors");  // axonn: every rank calls it
  axonn::save_state_dict(judging, out / "discriminator.safetensors");
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : "1x1x1x1", argc > 2 ? argv[2] : "", argc > 3 ? std::stol(argv[3]) : 60,
                 argc > 4 && std::string(argv[4]) == "fp64" ? torch::kDouble : torch::kFloat);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sharded_gan: %s\n", error.what());
    return 1;
  }
}
