// A network with a layer of its own, ScaleNorm, whose rows are on several ranks.
//
//   own_layer                                    one rank
//   scripts/mpirun -n 4 own_layer 2x1x2x1        the same numbers on four ranks
#include <cstdio>
#include <exception>
#include <memory>

#include <torch/nn/module.h>
#include <torch/types.h>

#include <axonn/comm/environment.hpp>
#include <axonn/layers/context.hpp>
#include <axonn/layers/linear.hpp>
#include <axonn/layers/loss.hpp>
#include <axonn/optim/make_optimizer.hpp>

#include "scale_norm.hpp"

constexpr int64_t kWidth = 48, kRows = 32, kSteps = 100;

struct Net : torch::nn::Module {
  explicit Net(axonn::Context& context)
      : up(context, {.in = kWidth, .out = 4 * kWidth}),
        norm(context, {.features = 4 * kWidth, .axis = up->out_axis()}),
        down(context, {.in = 4 * kWidth, .out = kWidth, .transposed = true}) {
    register_module("up", up.ptr());
    register_module("norm", norm.ptr());
    register_module("down", down.ptr());
  }
  axonn::Value forward(const axonn::Value& x) {
    return down(norm(up(x).map([](const torch::Tensor& values) { return torch::gelu(values); })));
  }

  axonn::Linear up;
  ScaleNorm norm;
  axonn::Linear down;
};

// This rank's rows of step `step`, whole. The network learns to shift features by one place.
torch::Tensor rows_of(const axonn::Context& context, int64_t step) {
  const auto share = context.row_share();
  const auto rows = kRows / share.groups, first = step * kRows + share.mine * rows;
  const auto number = torch::arange(first, first + rows, torch::kDouble).unsqueeze(1);
  return torch::sin(number * 12.9898 + torch::arange(kWidth, torch::kDouble).unsqueeze(0) * 78.233);
}

// The mean over the rows of all ranks.
torch::Tensor loss_of(axonn::Context& context, Net& net, const torch::Tensor& rows) {
  const auto x = redistribute(context, whole_input(context, rows), net.up->input_layout());
  const auto y = redistribute(context, net.forward(x), axonn::Layout::replicated()).tensor;
  return axonn::mean(torch::mse_loss(y, rows.roll(1, 1), at::Reduction::Sum), double{kRows * kWidth}, context);
}

int train(int argc, char** argv) {
  axonn::Environment environment;
  // fp64, so that a difference between grids is a mistake and no rounding.
  axonn::Context context(environment, axonn::parse_grid_shape(argc > 1 ? argv[1] : "1x1x1x1"),
                         {.dtype = torch::kDouble});
  auto net = std::make_shared<Net>(context);
  auto parameters = context.materialize(*net, /*seed=*/1);
  const auto optimizer = axonn::make_optimizer(context, parameters, {.learning_rate = 1e-3});

  for (int64_t i = 0; i < kSteps; ++i) {
    auto step = context.begin_step();
    const auto loss = loss_of(context, *net, rows_of(context, i));
    loss.backward();
    step.finish();  // the gradient of the norm's weight is summed too
    optimizer->step();
    if (environment.rank() == 0 && (i % 25 == 0 || i == kSteps - 1))
      std::printf("step %3ld  loss %.12f\n", static_cast<long>(i), loss.item<double>());
  }
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_layer: %s\n", error.what());
    return 1;
  }
}
