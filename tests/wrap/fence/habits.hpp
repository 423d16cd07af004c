#pragma once

#include <memory>
#include <string>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "axonn/layers/context.hpp"
#include "support/user_error.hpp"
#include "wrap/wrapped.hpp"

// A small program as its users write it, for what they do wrong.
namespace axonn::test {

struct Habits : torch::nn::Module {
  Habits() : a(40, 64), body(torch::nn::Sequential(torch::nn::Linear(64, 64), torch::nn::ReLU())), b(64, 40) {
    register_module("a", a);
    register_module("body", body);
    register_module("b", b);
  }
  at::Tensor forward(const at::Tensor& x) { return b(body->forward(torch::tanh(a(x)))); }

  torch::nn::Linear a;
  torch::nn::Sequential body;
  torch::nn::Linear b;
};

inline at::Tensor rows_of(const RowShare& share, int64_t step = 0) {
  torch::manual_seed(static_cast<uint64_t>(70 + step));
  return torch::randn({kRows, 40}, torch::kDouble).chunk(share.groups)[static_cast<size_t>(share.mine)];
}

class Program {
 public:
  explicit Program(GridShape grid = wrapped_grids().front(), const ShardOptions& options = {})
      : context(test_environment(), grid, {.dtype = at::kDouble}),
        net(network<Habits>()),
        parameters(shard(context, *net, options)),
        optimizer(parameters.local(), torch::optim::SGDOptions(0.1)) {}

  at::Tensor loss() { return net->forward(rows_of(context.row_share())).pow(2).sum() / kRows; }
  void pass() {
    auto step = context.begin_step();
    loss().backward();
    step.finish();
  }
  void step() {
    pass();
    optimizer.step();
  }
  // The sum of the absolute values of the whole weight that is trained.
  double weight(const std::string& name) {
    const at::NoGradGuard no_grad;
    const auto whole = parameters.gathered();
    return net->named_parameters()[name].abs().sum().item<double>();
  }

  Context context;
  std::shared_ptr<Habits> net;
  WrappedModule parameters;
  torch::optim::SGD optimizer;
};

}  // namespace axonn::test
