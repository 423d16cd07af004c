// An MLP as a torch::nn::Sequential, with weights, products and activations divided over all axes
// of the grid. Lines that axonn adds to a plain LibTorch program are marked.
//
//   split_mlp                                            one rank, an ordinary program
//   scripts/mpirun -n 4 split_mlp 2x1x2x1 mlp.weights    the same on four ranks, and a file
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include <axonn/comm/environment.hpp>
#include <axonn/layers/loss.hpp>
#include <axonn/wrap/parallelize.hpp>
#include <axonn/wrap/state_dict.hpp>

namespace nn = torch::nn;

constexpr int64_t kRows = 64, kSteps = 60;

// Points, and in which of four rings each lies.
std::pair<torch::Tensor, torch::Tensor> points(int64_t step, int64_t first, int64_t rows) {
  const auto number = torch::arange(step * kRows + first, step * kRows + first + rows);
  const auto ring = number.remainder(4), angle = number.to(torch::kFloat) * 2.4;
  const auto radius = ring.to(torch::kFloat) + 0.5;
  return {torch::stack({radius * angle.cos(), radius * angle.sin()}, 1), ring};
}

int train(const std::string& grid, const std::filesystem::path& file) {
  axonn::Environment environment;                                      // axonn: mpirun, srun, or one process
  axonn::Context context(environment, axonn::parse_grid_shape(grid));  // axonn
  torch::manual_seed(1);
  nn::Sequential net(nn::Linear(2, 96), nn::GELU(), nn::LayerNorm(nn::LayerNormOptions({96})), nn::Linear(96, 50),
                     nn::GELU(), nn::Linear(50, 4));
  auto parameters = axonn::parallelize(context, *net);      // axonn
  torch::optim::AdamW optimizer(parameters.local(), 1e-2);  // axonn: in place of net->parameters()

  const auto share = context.row_share();  // axonn: which rows are mine
  const int64_t rows = kRows / share.groups, first = share.mine * rows;
  for (int64_t i = 0; i < kSteps; ++i) {
    const auto [x, rings] = points(i, first, rows);
    auto step = context.begin_step();  // axonn
    auto loss = nn::functional::cross_entropy(net->forward(x), rings,
                                              nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    loss = axonn::mean(loss, kRows, context);  // axonn: over the rows of all ranks
    loss.backward();
    step.finish();                            // axonn
    axonn::clip_grad_norm_(parameters, 1.0);  // axonn: over all ranks
    optimizer.step();
    if (environment.rank() == 0 && (i % 15 == 0 || i == kSteps - 1))
      std::printf("step %2ld  loss %.5f\n", static_cast<long>(i), loss.item<double>());
  }
  if (!file.empty()) axonn::save_state_dict(parameters, file);  // axonn: Python's load_state_dict takes it
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : "1x1x1x1", argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "split_mlp: %s\n", error.what());
    return 1;
  }
}
