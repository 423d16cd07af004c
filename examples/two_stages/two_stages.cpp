// A network cut in two: the first half of the ranks has its first half, and sends each forward's
// activations to the second half. Gradients come back. Lines for the cut are marked.
//
//   two_stages                                   one rank, the whole network
//   scripts/mpirun -n 4 two_stages 1x2x1x1       the same numbers on two stages of two ranks each
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include <axonn/axonn.hpp>

constexpr int64_t kWidth = 64, kRows = 32, kSteps = 50;

// y = x + down(gelu(up(x))), with the features of x and y over X.
struct Block : torch::nn::Module {
  explicit Block(axonn::Context& context)
      : up(context, {.in = kWidth, .out = 4 * kWidth, .transposed = true}),
        down(context, {.in = 4 * kWidth, .out = kWidth}) {
    register_module("up", up.ptr());
    register_module("down", down.ptr());
  }
  axonn::Value hidden(const axonn::Value& x) {
    return up(x).map([](const torch::Tensor& values) { return torch::gelu(values); });
  }
  axonn::Value forward(const axonn::Value& x) { return down->launch(hidden(x), {.stream = x}).wait(); }

  axonn::Linear up, down;
};

// Some of the blocks. A block's name is that of the whole network, and so are its initial values.
struct Blocks : torch::nn::Module {
  Blocks(axonn::Context& context, const std::vector<std::string>& names) {
    for (const auto& name : names) blocks.push_back(register_module(name, std::make_shared<Block>(context)));
  }
  std::vector<std::shared_ptr<Block>> blocks;
};

// This rank's rows of step `step`. The network learns y = sin(3 x).
torch::Tensor rows_of(const axonn::Context& context, int64_t step) {
  const auto share = context.row_share();
  const auto rows = kRows / share.groups, first = step * kRows + share.mine * rows;
  const auto number = torch::arange(first, first + rows, torch::kDouble).unsqueeze(1);
  return torch::sin(number * 12.9898 + torch::arange(kWidth, torch::kDouble).unsqueeze(0) * 78.233);
}

// The mean over the rows of all ranks of the last stage.
torch::Tensor loss_of(axonn::Context& context, const axonn::Value& output, int64_t step) {
  const auto y = redistribute(context, output, axonn::Layout::replicated()).tensor;
  const auto sum = torch::mse_loss(y, torch::sin(3 * rows_of(context, step)), at::Reduction::Sum);
  return axonn::mean(sum, double{kRows * kWidth}, context);
}

int train(const std::string& grid) {
  axonn::Environment environment;
  const int ranks = environment.ranks();
  const bool cut = ranks > 1, first = environment.rank() < ranks / 2;
  axonn::PipelineStages stages;                                                                                // cut
  for (int rank = 0; rank < ranks; ++rank) (rank < ranks / 2 ? stages.first : stages.second).push_back(rank);  // cut
  axonn::Context context(environment, axonn::parse_grid_shape(grid),
                         {.dtype = torch::kDouble, .job_ranks = first ? stages.first : stages.second});
  std::optional<axonn::PipelineBorder> border;            // cut
  if (cut) border.emplace(environment, context, stages);  // cut

  const std::vector<std::string> both = {"first", "second"};
  Blocks network(context, cut ? std::vector{both[first ? 0 : 1]} : both);
  auto parameters = context.materialize(network, /*seed=*/1);
  const auto optimizer =
      axonn::make_optimizer(context, parameters, {.kind = axonn::OptimizerKind::sgd, .learning_rate = 0.2});
  const auto features = axonn::Layout::over(axonn::Axis::x);

  for (int64_t i = 0; i < kSteps; ++i) {
    auto step = context.begin_step();
    const auto rows = rows_of(context, i);
    auto x = cut && !first ? border->receive({rows.size(0)}, kWidth, features)  // cut
                           : redistribute(context, {rows, kWidth, axonn::Layout::replicated()}, features);
    torch::Tensor loss;
    if (first) {
      Block& block = *network.blocks[0];
      border->send(block.down, block.hidden(x), {.stream = x}).backward();  // cut: waits for the gradient
    } else {
      for (const auto& block : network.blocks) x = block->forward(x);
      loss = loss_of(context, x, i);
      loss.backward();  // cut: sends the gradient of what was received
    }
    step.finish();
    optimizer->step();
    if (!first && context.rank() == 0 && (i % 10 == 0 || i == kSteps - 1))
      std::printf("step %3ld  loss %.15f\n", static_cast<long>(i), loss.item<double>());
  }
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : "1x1x1x1");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "two_stages: %s\n", error.what());
    return 1;
  }
}
