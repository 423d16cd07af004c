// A language model of characters with LibTorch's own LSTM, its parameters, gradients and optimizer
// state sharded over the ranks. Lines that axonn adds to a plain LibTorch program are marked.
//
//   sharded_lstm                                             one rank, an ordinary program
//   scripts/mpirun -n 4 sharded_lstm 1x1x2x2 lstm.weights    the same on four ranks, and a file
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include <axonn/comm/environment.hpp>
#include <axonn/layers/loss.hpp>
#include <axonn/wrap/shard.hpp>
#include <axonn/wrap/state_dict.hpp>
#include <axonn/wrap/unit.hpp>

constexpr int64_t kCharacters = 128, kRows = 16, kLength = 24, kSteps = 60;
const std::string kText = "each rank keeps its range of every weight, and a unit is whole only while it computes; ";

struct LanguageModel : torch::nn::Module {
  LanguageModel()
      : words(kCharacters, 32), lstm(torch::nn::LSTMOptions(32, 64).batch_first(true)), scores(64, kCharacters) {
    register_module("words", words);
    register_module("lstm", lstm);
    register_module("scores", scores);
  }
  torch::Tensor forward(const torch::Tensor& ids) {
    auto [output, state] = lstm(words(ids));
    return scores(output);
  }

  torch::nn::Embedding words;
  axonn::Unit<torch::nn::LSTM> lstm;  // axonn: gathered when it computes, in place of torch::nn::LSTM
  torch::nn::Linear scores;
};

// Rows of the text, each a character longer than the model reads.
torch::Tensor rows_of_text(int64_t step, int64_t first, int64_t rows) {
  auto ids = torch::empty({rows, kLength + 1}, torch::kLong);
  auto at = ids.accessor<int64_t, 2>();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i <= kLength; ++i)
      at[row][i] = kText[static_cast<size_t>((step * kRows + first + row) * 7 + i) % kText.size()];
  return ids;
}

int train(const std::string& grid, const std::filesystem::path& file) {
  axonn::Environment environment;                                      // axonn: mpirun, srun, or one process
  axonn::Context context(environment, axonn::parse_grid_shape(grid));  // axonn
  torch::manual_seed(1);
  auto net = std::make_shared<LanguageModel>();
  auto parameters = axonn::shard(context, *net);            // axonn
  torch::optim::AdamW optimizer(parameters.local(), 1e-2);  // axonn: in place of net->parameters()

  const auto share = context.row_share();  // axonn: which rows are mine
  const int64_t rows = kRows / share.groups, first = share.mine * rows;
  for (int64_t i = 0; i < kSteps; ++i) {
    const auto ids = rows_of_text(i, first, rows);
    auto step = context.begin_step();  // axonn
    const auto scores = net->forward(ids.narrow(1, 0, kLength));
    auto loss =
        torch::nn::functional::cross_entropy(scores.flatten(0, 1), ids.narrow(1, 1, kLength).flatten(),
                                             torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    loss = axonn::mean(loss, kRows * kLength, context);  // axonn: over the rows of all ranks
    loss.backward();
    step.finish();                            // axonn
    axonn::clip_grad_norm_(parameters, 1.0);  // axonn: over all ranks
    optimizer.step();
    if (environment.rank() == 0 && (i % 15 == 0 || i == kSteps - 1))
      std::printf("step %2ld  loss %.5f\n", static_cast<long>(i), loss.item<double>());
  }

  const torch::NoGradGuard no_grad;
  const auto whole = parameters.gathered();  // axonn: every rank calls forward
  std::string text = "each rank";
  while (text.size() < 40) {
    auto ids = torch::empty({1, static_cast<int64_t>(text.size())}, torch::kLong);
    for (size_t i = 0; i < text.size(); ++i) ids[0][static_cast<int64_t>(i)] = text[i];
    text.push_back(static_cast<char>(net->forward(ids)[0][-1].argmax().item<int64_t>()));
  }
  if (environment.rank() == 0) std::printf("text: %s\n", text.c_str());
  if (!file.empty()) axonn::save_state_dict(parameters, file);  // axonn: Python's load_state_dict takes it
  return 0;
}

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : "1x1x1x1", argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sharded_lstm: %s\n", error.what());
    return 1;
  }
}
