// A transformer as a user writes it, with typed members whose weights, products and attention heads
// are divided over all axes of the grid. Lines that axonn adds are marked.
//
//   split_transformer                                       one rank, an ordinary program
//   scripts/mpirun -n 4 split_transformer 2x1x2x1 t.weights    the same on four ranks, and a file
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include <axonn/comm/environment.hpp>
#include <axonn/layers/loss.hpp>
#include <axonn/wrap/nn.hpp>
#include <axonn/wrap/parallelize.hpp>
#include <axonn/wrap/state_dict.hpp>

namespace nn = axonn::nn;  // axonn: in place of torch::nn

constexpr int64_t kNumbers = 13, kWidth = 64, kHeads = 4, kRows = 32, kLength = 16, kSteps = 60;

struct Block : nn::Module {
  Block()
      : norm(nn::LayerNormOptions({kWidth})),
        qkv(kWidth, 3 * kWidth),
        out(kWidth, kWidth),
        mlp_norm(nn::LayerNormOptions({kWidth})),
        up(kWidth, 4 * kWidth),
        down(4 * kWidth, kWidth) {
    register_module("norm", norm);
    register_module("qkv", qkv);
    register_module("out", out);
    register_module("mlp_norm", mlp_norm);
    register_module("up", up);
    register_module("down", down);
    nn::keep_split(qkv, out, {.heads = kHeads, .parts = 3});  // axonn: each rank has some of the heads
    nn::keep_split(up, down);                                 // axonn: and some of these features
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto by_head = [](const torch::Tensor& part) {  // -1: as many heads as this rank has
      return part.view({part.size(0), part.size(1), -1, kWidth / kHeads}).transpose(1, 2);
    };
    const auto parts = qkv(norm(x)).chunk(3, -1);
    const auto mixed = torch::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), {},
                                                           0.0, /*is_causal=*/true);
    const auto attended = x + out(mixed.transpose(1, 2).flatten(2));
    return attended + down(torch::gelu(up(mlp_norm(attended))));
  }

  nn::LayerNorm norm;
  nn::Linear qkv, out;
  nn::LayerNorm mlp_norm;
  nn::Linear up, down;
};

struct Transformer : nn::Module {
  Transformer() : words(kNumbers, kWidth), blocks(Block(), Block()), scores(kWidth, kNumbers) {
    register_module("words", words);
    register_module("blocks", blocks);
    register_module("scores", scores);
    positions = register_parameter("positions", 0.1 * torch::randn({kLength, kWidth}));
  }
  torch::Tensor forward(const torch::Tensor& ids) { return scores(blocks->forward(words(ids) + positions)); }

  nn::Embedding words;
  nn::Sequential blocks;
  nn::Linear scores;
  torch::Tensor positions;
};

// Sequences that go on by one of four steps around a circle of numbers, and what follows each.
torch::Tensor sequences(int64_t step, int64_t first, int64_t rows) {
  const auto number = torch::arange(step * kRows + first, step * kRows + first + rows).view({-1, 1});
  return (number * 5 + (number.remainder(4) + 1) * torch::arange(kLength + 1)).remainder(kNumbers);
}

int train(const std::string& grid, const std::filesystem::path& file) {
  axonn::Environment environment;                                      // axonn: mpirun, srun, or one process
  axonn::Context context(environment, axonn::parse_grid_shape(grid));  // axonn
  torch::manual_seed(1);
  auto net = std::make_shared<Transformer>();
  auto parameters = axonn::parallelize(context, *net);      // axonn
  torch::optim::AdamW optimizer(parameters.local(), 3e-3);  // axonn: in place of net->parameters()

  const auto share = context.row_share();  // axonn: which rows are mine
  const int64_t rows = kRows / share.groups, first = share.mine * rows;
  for (int64_t i = 0; i < kSteps; ++i) {
    const auto ids = sequences(i, first, rows);
    auto step = context.begin_step();  // axonn
    const auto scores = net->forward(ids.narrow(1, 0, kLength));
    auto loss = nn::functional::cross_entropy(scores.flatten(0, 1), ids.narrow(1, 1, kLength).flatten(),
                                              nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    loss = axonn::mean(loss, kRows * kLength, context);  // axonn: over the rows of all ranks
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
    std::fprintf(stderr, "split_transformer: %s\n", error.what());
    return 1;
  }
}
