// Shards a network whose values follow from names, or parallelizes it where X or Y > 1, loads IN if
// given, and saves it:
//   wrapped_files GRID OUT [IN]
// wrapped_runs.py and wrapped_interop_test.py know the same network.
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>
#include <torch/types.h>

#include "axonn/comm/environment.hpp"
#include "axonn/wrap/parallelize.hpp"
#include "axonn/wrap/state_dict.hpp"

namespace {

using namespace axonn;
namespace nn = torch::nn;

struct Net : nn::Module {
  Net()
      : tower(nn::Conv2d(nn::Conv2dOptions(3, 10, 3)), nn::GroupNorm(2, 10), nn::Flatten(), nn::Linear(160, 33)),
        norm(10),
        words(61, 20),
        lstm(nn::LSTMOptions(20, 12)),
        shared(40, 40) {
    register_module("tower", tower);
    register_module("norm", norm);
    register_module("words", words);
    register_module("lstm", lstm);
    register_module("up", shared);
    register_module("down", shared);
    scale = register_parameter("scale", torch::zeros({}));
    frozen = register_parameter("frozen", torch::zeros({1500}), /*requires_grad=*/false);
  }
  nn::Sequential tower;
  nn::BatchNorm2d norm;
  nn::Embedding words;
  nn::LSTM lstm;
  nn::Linear shared;
  at::Tensor scale, frozen;
};

void fill(const std::string& name, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const int64_t key = std::accumulate(name.begin(), name.end(), int64_t{0});
  const at::Tensor values = (torch::arange(tensor.numel()) * 7 + key).remainder(101) - 50;
  tensor.detach().copy_(tensor.is_floating_point() ? (values.to(at::kDouble) / 64).view(tensor.sizes())
                                                   : values.view(tensor.sizes()));
}

void save(const std::string& grid, const std::string& out, const std::string& in) {
  Environment environment;
  Context context(environment, parse_grid_shape(grid));
  Net net;
  for (const auto& each : net.named_parameters())
    if (!each.key().starts_with("down")) fill(each.key(), each.value());
  for (const auto& each : net.named_buffers()) fill(each.key(), each.value());
  const bool splits = context.shape().x * context.shape().y > 1;
  const ShardOptions options{.units = {"tower.*"}};
  const WrappedModule parameters = splits ? parallelize(context, net, options) : shard(context, net, options);
  if (!in.empty()) load_state_dict(parameters, in);
  save_state_dict(parameters, out);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    save(argv[1], argv[2], argc > 3 ? argv[3] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wrapped_files: %s\n", error.what());
    return 1;
  }
}
