// Trains a small network, sharded, or parallelized where X or Y > 1, with a checkpoint before each
// step but the first. It goes on from the newest one in RUN, and saves the weights at the end:
//   wrapped_training GRID RUN STEPS OUT
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include "axonn/checkpoint/history.hpp"
#include "axonn/comm/environment.hpp"
#include "axonn/wrap/nn.hpp"
#include "axonn/wrap/parallelize.hpp"
#include "axonn/wrap/state_dict.hpp"
#include "axonn/wrap/wrapped_checkpoint.hpp"

namespace {

using namespace axonn;

constexpr int64_t kRows = 12;

// Kernels of two sizes, running statistics, a frozen parameter, and sizes that do not divide. No
// gradient is zero but for rounding, which AdamW would magnify.
struct Net : torch::nn::Module {
  Net()
      : tower(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 10, 3).padding(1)), torch::nn::GELU(),
              torch::nn::Conv2d(torch::nn::Conv2dOptions(10, 13, 3)), torch::nn::GELU(), torch::nn::Flatten(),
              torch::nn::Linear(torch::nn::LinearOptions(117, 33).bias(false))),
        norm(33),
        head(40, 5) {
    register_module("tower", tower);
    register_module("norm", norm);
    register_module("head", head);
    frozen = register_parameter("frozen", torch::randn({33, 40}) / 6, /*requires_grad=*/false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(torch::gelu(norm(tower->forward(x)).matmul(frozen))); }
  torch::nn::Sequential tower;
  nn::BatchNorm1d norm;
  torch::nn::Linear head;
  torch::Tensor frozen;
};

void train(const std::string& grid, const std::string& run, int64_t steps, const std::string& out) {
  Environment environment;
  Context context(environment, parse_grid_shape(grid), {.dtype = torch::kDouble});
  torch::manual_seed(1);
  auto net = std::make_shared<Net>();
  net->to(torch::kDouble);
  const bool splits = context.shape().x * context.shape().y > 1;
  const ShardOptions options{.units = {"tower.*"}};
  const WrappedModule parameters = splits ? parallelize(context, *net, options) : shard(context, *net, options);
  torch::optim::AdamW optimizer(parameters.local(), torch::optim::AdamWOptions(1e-3).amsgrad(true));

  const int64_t first = checkpoints_in(run).empty() ? 0 : load_checkpoint(parameters, optimizer, run).step;
  const RowShare share = context.row_share();
  const int64_t rows = kRows / share.groups;
  for (int64_t step = first; step < steps; ++step) {
    if (step > first) save_checkpoint(parameters, optimizer, run, {.step = step});
    torch::manual_seed(static_cast<uint64_t>(100 + step));
    const auto x = torch::randn({kRows, 3, 5, 5}, torch::kDouble), weights = torch::randn({kRows, 5}, torch::kDouble);
    const auto mine = [&](const torch::Tensor& all) { return all.narrow(0, share.mine * rows, rows); };
    auto this_step = context.begin_step();
    (net->forward(mine(x)) * mine(weights)).sum().backward();
    this_step.finish();
    optimizer.step();
    if (environment.rank() == 0) std::printf("step %ld\n", static_cast<long>(step)), std::fflush(stdout);
  }
  if (steps > first) save_checkpoint(parameters, optimizer, run, {.step = steps});
  save_state_dict(parameters, out);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) throw std::invalid_argument("usage: wrapped_training GRID RUN STEPS OUT");
    train(argv[1], argv[2], std::stol(argv[3]), argv[4]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wrapped_training: %s\n", error.what());
    return 1;
  }
}
