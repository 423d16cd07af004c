// A plain LibTorch module in data parallelism: each rank computes its rows, and the optimizer sums
// the gradients, clips them, and updates the module's own tensors. Each rank keeps 1/ranks of the
// optimizer's state. Lines that axonn adds are marked.
//
//   plain_module                                           one rank, an ordinary program
//   scripts/mpirun -n 4 plain_module runs/plain            the same numbers on four ranks
//   scripts/mpirun -n 2 plain_module runs/plain            goes on from there on two
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>

#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <axonn/comm/environment.hpp>
#include <axonn/train/scattered_checkpoint.hpp>

struct Net : torch::nn::Module {
  explicit Net(int64_t width)
      : norm(torch::nn::LayerNormOptions({width})), up(width, 4 * width), down(4 * width, width) {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& x) { return down(torch::gelu(up(norm(x)))); }

  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};

constexpr int64_t kWidth = 64, kRows = 32, kSteps = 100;

// Rows of step `step`. The network learns y = sin(3 x) with features shifted by one position.
torch::Tensor inputs(int64_t step, int64_t first, int64_t rows) {
  const auto number = torch::arange(step * kRows + first, step * kRows + first + rows, torch::kFloat).unsqueeze(1);
  return torch::sin(number * 12.9898 + torch::arange(kWidth, torch::kFloat).unsqueeze(0) * 78.233);
}

int train(const std::filesystem::path& directory) {
  axonn::Environment environment;  // axonn: mpirun, srun, RANK and WORLD_SIZE, or one process
  torch::manual_seed(1);
  auto net = std::make_shared<Net>(kWidth);
  axonn::ScatteredOptimizer optimizer(environment.world(), *net, {.learning_rate = 3e-3});  // axonn
  if (std::filesystem::exists(directory)) load_checkpoint(optimizer, directory);            // axonn

  const int64_t rows = kRows / environment.ranks(), first = environment.rank() * rows;
  const int64_t begin = optimizer.steps_taken();
  for (int64_t i = begin; i < begin + kSteps; ++i) {
    const auto x = inputs(i, first, rows);
    auto sum = torch::mse_loss(net->forward(x), torch::sin(3 * x).roll(1, 1), at::Reduction::Sum);
    (sum / (kRows * kWidth)).backward();  // the mean over the rows of all ranks
    optimizer.step({.max_norm = 1});      // axonn: gradients are zero afterwards

    environment.world().all_reduce(sum.detach_()).wait();
    if (environment.rank() == 0 && (i % 25 == 0 || i == begin + kSteps - 1))
      std::printf("step %3ld  loss %.5f\n", static_cast<long>(i), sum.item<double>() / (kRows * kWidth));
  }
  if (!directory.empty()) save_checkpoint(optimizer, directory);  // axonn
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "plain_module: %s\n", error.what());
    return 1;
  }
}
