// A residual network of torch::nn modules, with its parameters, gradients and optimizer state
// sharded over the ranks. Lines that axonn adds to a plain LibTorch program are marked.
//
//   sharded_cnn                                            one rank, an ordinary program
//   scripts/mpirun -n 4 sharded_cnn 1x1x2x2 net.weights    the same on four ranks, and a file
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adamw.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/types.h>

#include <axonn/comm/environment.hpp>
#include <axonn/wrap/shard.hpp>
#include <axonn/wrap/state_dict.hpp>

struct Block : torch::nn::Module {
  explicit Block(int64_t channels)
      : norm(torch::nn::GroupNormOptions(4, channels)),
        first(torch::nn::Conv2dOptions(channels, channels, 3).padding(1)),
        second(torch::nn::Conv2dOptions(channels, channels, 3).padding(1)) {
    register_module("norm", norm);
    register_module("first", first);
    register_module("second", second);
  }
  torch::Tensor forward(const torch::Tensor& x) { return x + second(torch::relu(first(norm(x)))); }

  torch::nn::GroupNorm norm;
  torch::nn::Conv2d first, second;
};

struct Net : torch::nn::Module {
  Net() : stem(torch::nn::Conv2dOptions(1, 16, 3).padding(1)), blocks(Block(16), Block(16)), head(16, 4) {
    register_module("stem", stem);
    register_module("blocks", blocks);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(blocks->forward(stem(x)).mean({2, 3})); }

  torch::nn::Conv2d stem;
  torch::nn::Sequential blocks;
  torch::nn::Linear head;
};

constexpr int64_t kRows = 32, kSteps = 60;

// Stripes in one of four directions, which is what the network learns to name.
std::pair<torch::Tensor, torch::Tensor> images(int64_t step, int64_t first, int64_t rows) {
  const auto number = torch::arange(step * kRows + first, step * kRows + first + rows);
  const auto direction = number.remainder(4), phase = number.view({-1, 1, 1}).to(torch::kFloat) * 0.7;
  const auto angle = direction.view({-1, 1, 1}).to(torch::kFloat) * (3.14159265 / 4);
  const auto at = torch::arange(12, torch::kFloat);
  const auto along = at.view({1, 1, -1}) * torch::cos(angle) + at.view({1, -1, 1}) * torch::sin(angle);
  return {torch::sin(1.5 * along + phase).unsqueeze(1), direction};
}

int train(const std::string& grid, const std::filesystem::path& file) {
  axonn::Environment environment;                                      // axonn: mpirun, srun, or one process
  axonn::Context context(environment, axonn::parse_grid_shape(grid));  // axonn
  torch::manual_seed(1);
  auto net = std::make_shared<Net>();
  auto parameters = axonn::shard(context, *net, {.units = {"blocks.*"}});  // axonn
  torch::optim::AdamW optimizer(parameters.local(), 3e-3);                 // axonn: in place of net->parameters()
  torch::optim::StepLR schedule(optimizer, 40, 0.3);

  const auto share = context.row_share();  // axonn: which rows are mine
  const int64_t rows = kRows / share.groups, first = share.mine * rows;
  for (int64_t i = 0; i < kSteps; ++i) {
    const auto [x, directions] = images(i, first, rows);
    auto step = context.begin_step();  // axonn
    auto sum = torch::nn::functional::cross_entropy(
        net->forward(x), directions, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    (sum / kRows).backward();                 // the mean over the rows of all ranks
    step.finish();                            // axonn
    axonn::clip_grad_norm_(parameters, 1.0);  // axonn: over all ranks
    optimizer.step();
    schedule.step();

    environment.world().all_reduce(sum.detach_()).wait();
    if (environment.rank() == 0 && (i % 15 == 0 || i == kSteps - 1))
      std::printf("step %2ld  loss %.5f\n", static_cast<long>(i), sum.item<double>() / kRows);
  }
  if (!file.empty()) axonn::save_state_dict(parameters, file);  // axonn: Python's load_state_dict takes it
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : "1x1x1x1", argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sharded_cnn: %s\n", error.what());
    return 1;
  }
}
