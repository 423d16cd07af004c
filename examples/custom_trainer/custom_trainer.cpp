// A custom trainer: a two-layer network on a grid, with the usual LibTorch loop. Only the grid, the
// layers and the step are new.
//
//   custom_trainer                                    one rank, an ordinary program
//   scripts/mpirun -n 4 custom_trainer 2x1x2x1        the same numbers on four ranks
#include <cmath>
#include <cstdio>
#include <memory>

#include <torch/nn/module.h>
#include <torch/types.h>

#include <axonn/axonn.hpp>

struct Net : torch::nn::Module {
  Net(axonn::Context& context, int64_t width)
      : up(context, {.in = width, .out = 4 * width, .input = axonn::Layout::replicated()}),
        down(context, {.in = 4 * width, .out = width, .transposed = true, .output = axonn::Layout::replicated()}) {
    register_module("up", up.ptr());
    register_module("down", down.ptr());
  }
  torch::Tensor forward(const torch::Tensor& x) { return down(torch::gelu(up(x))); }

  axonn::Linear up, down;
};

struct Batch {
  torch::Tensor input, target;  // this rank's rows
  int64_t global_count;         // numbers in the targets of the whole grid
};

constexpr int64_t kWidth = 64, kRows = 32;

// This rank's rows of step `step`. Rows are split over Z and data, so ranks that differ only in X
// or Y have the same rows. The network learns y = sin(3 x) with features shifted by one position.
Batch batch_of(const axonn::Context& context, int64_t step) {
  const auto share = context.row_share();
  const auto rows = kRows / share.groups;
  const auto first = step * kRows + share.mine * rows;
  const auto number = torch::arange(first, first + rows, torch::kFloat).unsqueeze(1);
  const auto feature = torch::arange(kWidth, torch::kFloat).unsqueeze(0);
  const auto input = torch::sin(number * 12.9898 + feature * 78.233);  // any numbers that depend only on the row
  return {input, torch::sin(3 * input).roll(1, 1), kRows * kWidth};
}

int train(int argc, char** argv) {
  axonn::Environment environment;  // mpirun, srun, RANK and WORLD_SIZE, or one process
  axonn::Context context(environment, axonn::parse_grid_shape(argc > 1 ? argv[1] : "1x1x1x1"));
  auto net = std::make_shared<Net>(context, kWidth);
  auto parameters = context.materialize(*net, /*seed=*/1);  // named, laid out and initialized: the same on every grid
  const auto optimizer = axonn::make_optimizer(context, parameters, {.learning_rate = 3e-3});

  for (int64_t i = 0; i < 200; ++i) {
    const auto batch = batch_of(context, i);
    auto step = context.begin_step();
    auto sum = torch::mse_loss(net->forward(batch.input), batch.target, at::Reduction::Sum);
    auto loss = axonn::mean(sum, static_cast<double>(batch.global_count), context);
    loss.backward();
    step.finish();  // all gradients are complete
    optimizer->step({.max_norm = 1.0});
    if (environment.rank() == 0 && (i % 50 == 0 || i == 199))
      std::printf("step %3ld  loss %.5f\n", static_cast<long>(i), loss.item<double>());
  }
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "custom_trainer: %s\n", error.what());
    return 1;
  }
}
