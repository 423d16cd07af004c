// Handwritten digits, after PyTorch's C++ example of distributed training: a data loader, a mean
// loss, and an evaluation. The parameters, gradients and optimizer state are sharded over the
// ranks. Lines that axonn adds to a plain LibTorch program are marked.
//
//   distributed_mnist                                       one rank, digits drawn here
//   scripts/mpirun -n 4 distributed_mnist 1x1x2x2 w.file    the same on four ranks, and a file
//   distributed_mnist 1x1x1x1 w.file 2 fp32 mnist           two epochs of the files in mnist/
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include <torch/data/dataloader.h>
#include <torch/data/datasets/map.h>
#include <torch/data/datasets/mnist.h>
#include <torch/data/samplers/distributed.h>
#include <torch/data/transforms/stack.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <axonn/comm/environment.hpp>
#include <axonn/layers/loss.hpp>
#include <axonn/wrap/decay_groups.hpp>
#include <axonn/wrap/row_sampler.hpp>
#include <axonn/wrap/state_dict.hpp>

struct Net : torch::nn::Module {
  Net() : conv1(1, 10, 5), conv2(10, 20, 5), fc1(320, 50), fc2(50, 10) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv2(torch::relu(torch::max_pool2d(conv1(x), 2))), 2));
    return torch::log_softmax(fc2(torch::relu(fc1(x.flatten(1)))), 1);
  }

  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear fc1, fc2;
};

struct Digits : torch::data::datasets::Dataset<Digits> {
  Digits(torch::Tensor pictures, torch::Tensor numbers) : images(std::move(pictures)), targets(std::move(numbers)) {}
  torch::data::Example<> get(size_t index) override {
    return {images[static_cast<int64_t>(index)], targets[static_cast<int64_t>(index)]};
  }
  std::optional<size_t> size() const override { return static_cast<size_t>(images.size(0)); }
  torch::Tensor images, targets;
};

// MNIST's files in `folder`, or blurred segments as on a pocket calculator.
Digits digits(const std::string& folder, bool train, torch::Dtype type) {
  if (!folder.empty()) {
    using torch::data::datasets::MNIST;
    const MNIST mnist(folder, train ? MNIST::Mode::kTrain : MNIST::Mode::kTest);
    return {((mnist.images() - 0.1307) / 0.3081).to(type), mnist.targets()};
  }
  constexpr int kLit[10] = {0x77, 0x24, 0x5d, 0x6d, 0x2e, 0x6b, 0x7b, 0x25, 0x7f, 0x6f};
  constexpr int kTop[7] = {4, 4, 4, 13, 13, 13, 22}, kLeft[7] = {9, 9, 18, 9, 9, 18, 9};
  torch::manual_seed(train ? 1 : 2);
  const int64_t count = train ? 1000 : 200;
  const auto targets = torch::arange(count).remainder(10), images = torch::rand({count, 1, 28, 28}, torch::kDouble) * 2;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t segment = 0; segment < 7; ++segment)
      if ((kLit[i % 10] >> segment) & 1)
        images[i][0]
            .narrow(0, kTop[segment], segment % 3 == 0 ? 2 : 10)
            .narrow(1, kLeft[segment], segment % 3 == 0 ? 10 : 2)
            .add_(1);
  return {(images - 1).to(type), targets};
}

int train(const std::string& grid, const std::filesystem::path& file, int64_t epochs, torch::Dtype type,
          const std::string& folder) {
  axonn::Environment environment;                                                       // axonn
  axonn::Context context(environment, axonn::parse_grid_shape(grid), {.dtype = type});  // axonn
  auto data = digits(folder, /*train=*/true, type);
  const auto test = digits(folder, /*train=*/false, type);
  const size_t size = data.size().value();
  torch::data::samplers::DistributedRandomSampler all(size);
  auto loader = torch::data::make_data_loader(std::move(data).map(torch::data::transforms::Stack<>()),
                                              axonn::RowSampler(context, all),  // axonn: my rows of each batch
                                              torch::data::DataLoaderOptions().batch_size(60));
  torch::manual_seed(1);
  auto net = std::make_shared<Net>();
  net->to(type);
  auto parameters = axonn::shard(context, *net);  // axonn
  const auto options = torch::optim::SGDOptions(0.05).momentum(0.5).weight_decay(1e-4);
  torch::optim::SGD optimizer(axonn::decay_groups(parameters, options), options);  // axonn: of parameters

  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    double last = 0;
    for (auto& batch : *loader) {
      auto step = context.begin_step();  // axonn
      auto loss = torch::nll_loss(net->forward(batch.data), batch.target);
      loss = axonn::mean_over_ranks(loss, batch.target.size(0), context);  // axonn
      loss.backward();
      step.finish();  // axonn
      optimizer.step();
      last = loss.item<double>();
    }
    const torch::NoGradGuard no_grad;
    const auto whole = parameters.gathered();  // axonn: every rank, also if only one prints
    const auto right = net->forward(test.images).argmax(1).eq(test.targets).sum().item<int64_t>();
    if (environment.rank() == 0)
      std::printf("epoch %ld  right %ld of %ld  loss %.14f\n", static_cast<long>(epoch), static_cast<long>(right),
                  static_cast<long>(test.targets.size(0)), last);
  }
  if (!file.empty()) axonn::save_state_dict(parameters, file);  // axonn: every rank calls it
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : "1x1x1x1", argc > 2 ? argv[2] : "", argc > 3 ? std::stol(argv[3]) : 5,
                 argc > 4 && std::string(argv[4]) == "fp64" ? torch::kDouble : torch::kFloat, argc > 5 ? argv[5] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "distributed_mnist: %s\n", error.what());
    return 1;
  }
}
