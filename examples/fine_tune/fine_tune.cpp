// Fine-tunes a Llama, Mistral, Qwen or GPT-2 of Hugging Face's on a grid, and writes it again: from
// a directory to a directory. The tokens are whole numbers in a text file, as any tokenizer gives
// them.
//
//   scripts/mpirun -n 4 fine_tune DIRECTORY tokens.txt NEW_DIRECTORY 2x1x2x1
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include <torch/types.h>

#include <axonn/axonn.hpp>

constexpr int64_t kSteps = 50, kSequence = 64, kRows = 8;

// This rank's rows of step `step`: one token more than a sequence.
torch::Tensor rows_of(const std::vector<int64_t>& tokens, const axonn::RowShare& share, int64_t step) {
  const int64_t rows = kRows / share.groups, windows = static_cast<int64_t>(tokens.size()) - kSequence;
  const auto batch = torch::empty({rows, kSequence + 1}, torch::kLong);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = (step * kRows + share.mine * rows + row) * kSequence % windows;
    std::copy_n(tokens.begin() + begin, kSequence + 1, batch[row].data_ptr<int64_t>());
  }
  return batch;
}

int fine_tune(char** argv) {
  axonn::Environment environment;
  const axonn::ModelDirectory directory(argv[1]);
  std::ifstream file(argv[2]);
  const std::vector<int64_t> tokens{std::istream_iterator<int64_t>(file), {}};
  if (tokens.size() < kSequence + 2) throw axonn::UserError("fine_tune", "there are too few tokens in that file");

  axonn::Context context(environment, axonn::parse_grid_shape(argv[4]));
  const axonn::DecoderConfig config{.shape = directory.config().shape};
  axonn::Decoder model(context, config);
  const auto parameters = context.materialize(model, {.is_loaded = [](const auto&) { return true; }});
  directory.load(context, parameters);  // each rank its own part
  const auto optimizer = axonn::make_optimizer(context, parameters, {.learning_rate = 1e-4});

  for (int64_t i = 0; i < kSteps; ++i) {
    const auto rows = rows_of(tokens, context.row_share(), i);
    auto step = context.begin_step();
    const auto sum =
        model.loss_sum(rows.narrow(1, 0, kSequence).contiguous(), rows.narrow(1, 1, kSequence).contiguous());
    const auto loss = axonn::mean(sum, kRows * kSequence, context);
    loss.backward();
    step.finish();
    optimizer->step({.max_norm = 1.0});
    if (environment.rank() == 0 && (i % 10 == 0 || i == kSteps - 1))
      std::printf("step %2ld  loss %.4f\n", static_cast<long>(i), loss.item<double>());
  }
  axonn::save_model(context, parameters, config, argv[3], {.original = argv[1]});
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: fine_tune DIRECTORY TOKENS NEW_DIRECTORY GRID\n"), 2;
  try {
    return fine_tune(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fine_tune: %s\n", error.what());
    return 1;
  }
}
