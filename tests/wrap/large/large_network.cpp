// Makes a network, trains it for two steps on a grid of 1x1xRANKSx1, and saves it:
//   large_network meta|plain BLOCKS FILE
// With `meta` it is made by on_meta(). With a `-frozen` behind it, only the last block is trained.
#include <cstdio>
#include <exception>
#include <string>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "axonn/comm/environment.hpp"
#include "axonn/wrap/on_meta.hpp"
#include "axonn/wrap/shard.hpp"
#include "axonn/wrap/state_dict.hpp"

namespace {

using namespace axonn;

constexpr int64_t kWidth = 2048;  // 16 MiB per block

struct Net : torch::nn::Module {
  Net(int64_t count, bool frozen) {
    for (int64_t i = 0; i < count; ++i) blocks->push_back(torch::nn::Linear(kWidth, kWidth));
    register_module("blocks", blocks);
    for (int64_t i = 0; i < count - 1 && frozen; ++i)
      for (torch::Tensor& each : blocks->ptr(static_cast<size_t>(i))->parameters()) each.set_requires_grad(false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return blocks->forward(x); }
  torch::nn::Sequential blocks;
};

void train(const std::string& mode, int64_t blocks, const std::string& file) {
  Environment environment;
  Context context(environment, {.z = environment.ranks()}, {.overlap = {.switches = {.cache = false}, .prefetch = 1}});
  const auto make = [&] { return std::make_shared<Net>(blocks, mode.ends_with("-frozen")); };
  torch::manual_seed(1);
  const auto net = mode.starts_with("meta") ? on_meta(make) : make();
  const WrappedModule parameters = shard(context, *net, {.units = {"blocks.*"}});
  torch::optim::SGD optimizer(parameters.local(), torch::optim::SGDOptions(1e-3));
  double loss = 0;
  for (int step = 0; step < 2; ++step) {
    const torch::Tensor x = torch::ones({2, kWidth});
    auto this_step = context.begin_step();
    const torch::Tensor sum = net->forward(x).pow(2).sum();
    sum.backward();
    this_step.finish();
    optimizer.step();
    loss = sum.item<double>();
  }
  save_state_dict(parameters, file);
  if (environment.rank() == 0)
    std::printf("loss %.9g, network %ld MiB\n", loss, static_cast<long>(blocks * kWidth * (kWidth + 1) * 4 >> 20));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fputs("usage: large_network meta|plain[-frozen] BLOCKS FILE\n", stderr), 2;
  try {
    train(argv[1], std::stol(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "large_network: %s\n", error.what()), 1;
  }
}
