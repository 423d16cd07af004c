// Several documents in one row, each seen by its own tokens only, are as in rows of their own:
// losses and all gradients, on every grid.
#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "axonn/train/passes.hpp"
#include "model/small_decoders.hpp"
#include "support/every_grid.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

constexpr int64_t kSequence = 16;
constexpr double kRelative = 1e-12;
using Lengths = std::vector<int64_t>;

// Rows differ in the order of their documents.
Lengths lengths_of(int64_t row) { return row % 2 == 0 ? Lengths{3, 1, 5, 7} : Lengths{7, 5, 1, 3}; }

class Documents : public SyntheticTokens {
 public:
  Documents(Decoder& model, bool packed) : SyntheticTokens(model, 1), model_(model), packed_(packed) {}

  at::Tensor loss_sum(const std::vector<at::Tensor>& inputs) override {
    const at::Tensor ids = inputs[0].narrow(1, 0, kSequence).contiguous();
    const at::Tensor targets = inputs[0].narrow(1, 1, kSequence).contiguous();
    return packed_ ? model_.loss_sum(ids, targets, begins_of(ids)) : apart(ids, targets);
  }

 private:
  static at::Tensor begins_of(const at::Tensor& ids) {
    const at::Tensor begins = at::zeros_like(ids);
    for (int64_t row = 0; row < ids.size(0); ++row) {
      int64_t begin = 0;
      for (const int64_t length : lengths_of(row)) {
        begins[row].narrow(0, begin, length).fill_(begin);
        begin += length;
      }
    }
    return begins;
  }

  at::Tensor apart(const at::Tensor& ids, const at::Tensor& targets) {
    at::Tensor sum;
    for (int64_t row = 0; row < ids.size(0); ++row) {
      int64_t begin = 0;
      for (const int64_t length : lengths_of(row)) {
        const auto part = [&](const at::Tensor& all) {
          return all.narrow(0, row, 1).narrow(1, begin, length).contiguous();
        };
        const at::Tensor loss = model_.loss_sum(part(ids), part(targets));
        sum = sum.defined() ? sum + loss : loss;
        begin += length;
      }
    }
    return sum;
  }

  Decoder& model_;
  bool packed_;
};

struct Result {
  double loss = 0;
  std::vector<at::Tensor> gradients;
};

Result result_of(Context& context, const DecoderConfig& config, bool packed) {
  Decoder model(context, config);
  const Parameters parameters = context.materialize(model, 1);
  Documents task(model, packed);
  const BatchPlan plan =
      plan_micro_batches(int64_t{4} * context.shape().z * context.shape().data, 2, context.shape(), context.at());
  Result result{.loss = run_passes(context, task, plan, 0).loss(), .gradients = {}};
  for (const ArenaSlot& slot : parameters.arena().slots())
    result.gradients.push_back(parameters.arena().gradient(slot).clone());
  return result;
}

void expect_the_same(const DecoderConfig& config, const std::string& what, const std::vector<GridShape>& grids,
                     const ForwardSchedule& forward = {}) {
  for (const GridShape& grid : grids) {
    SCOPED_TRACE(what + " on " + grid.to_string());
    Context context(test_environment(), grid, {.dtype = at::kDouble, .forward = forward});
    const Result apart = result_of(context, config, false), packed = result_of(context, config, true);
    EXPECT_NEAR(packed.loss / apart.loss, 1, kRelative);
    double greatest = 0, differs = 0;
    for (size_t i = 0; i < apart.gradients.size(); ++i) {
      if (apart.gradients[i].numel() == 0) continue;
      greatest = std::max(greatest, apart.gradients[i].abs().max().item<double>());
      differs = std::max(differs, (packed.gradients[i] - apart.gradients[i]).abs().max().item<double>());
    }
    EXPECT_GT(greatest, 0);
    EXPECT_LE(differs, kRelative * greatest);
  }
}

std::vector<GridShape> one_grid() { return {test::every_grid().back()}; }

DecoderShape gpt2() { return test::small_gpt2({.heads = 8, .sequence = kSequence}); }

DecoderShape llama() {
  return test::small_llama({.heads = 8, .head_dim = 6, .mlp_hidden = 64, .sequence = kSequence, .window = 4});
}

TEST(DocumentMask, EqualsSeparateDocuments) {
  expect_the_same({.shape = gpt2()}, "gpt2", test::every_grid());
  expect_the_same({.shape = llama()}, "llama", test::every_grid());
}

TEST(DocumentMask, EqualsThemWhereBlocksAreComputedAgain) {
  expect_the_same({.shape = gpt2(), .checkpoint_every = 1}, "gpt2", one_grid());
}

// Dropout takes another way through attention. A rate so small drops nothing.
TEST(DocumentMask, EqualsThemOnTheWayOfDropout) {
  expect_the_same({.shape = gpt2(), .dropout = 1e-18}, "gpt2", one_grid());
  expect_the_same({.shape = llama(), .dropout = 1e-18}, "llama", one_grid());
}

// Documents by themselves are shorter than twice the ranks, so some of these have no rows.
TEST(DocumentMask, EqualsThemWhereRowsAreDivided) {
  const std::vector<GridShape> grids = {{.y = test_environment().ranks()}};
  expect_the_same({.shape = gpt2()}, "gpt2", grids, {.attention_rows = AttentionRows::on});
  expect_the_same({.shape = llama()}, "llama", grids, {.attention_rows = AttentionRows::on});
}

// A document of one token has fewer rows than ranks, and stays whole.
TEST(DocumentMask, EqualsThemWhereRowsOfNormsAreDivided) {
  const std::vector<GridShape> grids = {{.x = test_environment().ranks()}};
  expect_the_same({.shape = gpt2()}, "gpt2", grids, {.norm_rows = NormRows::on});
  expect_the_same({.shape = llama()}, "llama", grids, {.norm_rows = NormRows::on});
}

TEST(DocumentMask, WrongMasksAreRefused) {
  Context context(test_environment(), {.data = test_environment().ranks()}, {.dtype = at::kDouble});
  const at::Tensor one = at::ones({1, 2, 1, 2}, at::kDouble);
  EXPECT_USER_ERROR(document_mask(at::zeros({2}, at::kLong), one), "begins must be (batch, sequence) of int64");
  EXPECT_USER_ERROR(document_mask(at::zeros({1, 2}, at::kInt), one), "begins must be (batch, sequence) of int64");
  EXPECT_USER_ERROR(attention(context, {one, one, one}, {.heads = 1}, at::zeros({1, 1, 2, 3}, at::kDouble)),
                    "a mask of documents is for causal attention, with sizes (1, 1, 2, 2)");
  EXPECT_USER_ERROR(
      attention(context, {one, one, one}, {.heads = 1, .causal = false}, at::zeros({1, 1, 2, 2}, at::kDouble)),
      "a mask of documents is for causal attention");
}

}  // namespace
}  // namespace axonn
