#include <algorithm>
#include <iterator>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/my_tokens.hpp"
#include "axonn/layers/loss.hpp"
#include "axonn/tasks/text/evaluation.hpp"
#include "kernels/gpu/placed.hpp"
#include "train/evaluating.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr const char* kWhere = "tasks.evaluation";
constexpr int64_t kIds = 0, kTargets = 1;

void check(std::span<const ScoredText> texts, const EvaluationOptions& options, const DecoderShape& shape) {
  AXONN_CHECK(!texts.empty() && options.rows >= 1, kWhere, "needs at least one text and at least one row, got ",
              texts.size(), " texts and ", options.rows, " rows");
  for (const ScoredText& text : texts) {
    const int64_t tokens = std::ssize(text.tokens);
    AXONN_CHECK(text.scored >= 1 && text.scored < tokens && tokens <= shape.sequence + 1, kWhere,
                "a text must have a token before the scored ones, and at most ", shape.sequence + 1, " in all, got ",
                text.scored, " scored of ", tokens, " tokens");
    for (const int32_t token : text.tokens)
      AXONN_CHECK(token >= 0 && token < shape.vocabulary, kWhere, "tokens must be from 0 to ", shape.vocabulary - 1,
                  ", as the model's vocabulary says, got ", token);
  }
}

// Texts of nearly the same length share a forward pass.
std::vector<size_t> longest_first(std::span<const ScoredText> texts) {
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t text) { return texts[text].tokens.size(); });
  return order;
}

// Puts a text at the beginning of row `row` of `both` (2, rows, inputs): ids, and scored targets.
void put(const ScoredText& text, const Tensor& both, int64_t row) {
  const auto begin = [&](int64_t which) {
    return both.mutable_data_ptr<int64_t>() + (which * both.size(1) + row) * both.size(2);
  };
  const int64_t inputs = std::ssize(text.tokens) - 1;
  std::copy_n(text.tokens.begin(), inputs, begin(kIds));
  std::copy(text.tokens.end() - text.scored, text.tokens.end(), begin(kTargets) + inputs - text.scored);
}

// Tokens of a row that has `tokens`: a few more, where ranks divide it into equal parts.
int64_t padded(const Context& context, int64_t tokens) {
  const int64_t ranks = context.options().forward.context, parts = ranks == 1 ? 1 : 2 * ranks;
  return (tokens + parts - 1) / parts * parts;
}

}  // namespace

std::vector<double> log_probabilities(Context& context, Decoder& model, std::span<const ScoredText> texts,
                                      const EvaluationOptions& options) {
  check(texts, options, model.config().shape);
  const Evaluating evaluating(model, context, Phase::evaluate);
  const RowShare share = context.row_share();
  const auto device = context.options().device;
  const std::vector<size_t> order = longest_first(texts);
  const int64_t all = std::ssize(texts);
  Tensor sums = at::zeros({all}, at::kDouble);  // zeros but for this rank's texts, or its tokens of them
  // Every rank runs the same number of forwards, of the same sizes; rows past the last text
  // contribute nothing.
  for (int64_t begin = 0; begin < all; begin += share.groups * options.rows) {
    const int64_t rows = share.rows(all - begin, options.rows), mine = begin + share.mine * rows,
                  inputs = padded(context, std::ssize(texts[order[static_cast<size_t>(begin)]].tokens) - 1);
    const Tensor both = at::zeros({2, rows, inputs}, at::kLong);
    both[kTargets].fill_(kIgnoredTarget);
    const int64_t here = std::clamp<int64_t>(all - mine, 0, rows);
    for (int64_t i = 0; i < here; ++i) put(texts[order[static_cast<size_t>(mine + i)]], both, i);
    const Tensor on_device = placed(both, device);
    const Tensor losses =
        cross_entropy_rows(context, model.forward(on_device[kIds]), my_tokens(context, on_device[kTargets]));
    const Tensor of_texts = losses.sum(1, /*keepdim=*/false, at::kDouble).to(at::kCPU);
    for (int64_t i = 0; i < here; ++i)
      sums.mutable_data_ptr<double>()[order[static_cast<size_t>(mine + i)]] = -of_texts.const_data_ptr<double>()[i];
    if (options.progress) options.progress(std::min(all, begin + share.groups * rows), all);
  }
  sums = context.scheduler().all_reduce(sums.to(device), kRowAxes, "log-probabilities").wait().to(at::kCPU);
  const double* first = sums.const_data_ptr<double>();
  return {first, first + all};
}

}  // namespace axonn
