// Ranks that have the same heads divide the rows of queries: outputs and gradients are those of all
// rows on every rank, and what moves is as long as a formula says.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/grid/query_rows.hpp"
#include "axonn/layers/attention.hpp"
#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kBatch = 4, kHeads = 12, kEach = 2, kFeatures = kHeads * kEach;
constexpr int64_t kBytes = 8;  // per element

struct Case {
  const char* name;
  int64_t sequence;
  AttentionOptions options;
  bool documents = false;
};

// 12 heads on every grid of up to 4 ranks, and 4 or 12 of keys.
AttentionOptions heads_of(int64_t keys, int64_t window = 0, double dropout = 0) {
  return {.heads = kHeads, .kv_heads = keys, .window = window, .dropout = dropout, .dropout_name = "probabilities"};
}

// Of causal attention. Lengths without rows for some parts, that do not divide, of one block of
// queries and of several, and beyond what our own kernel takes; windows shorter and longer than a
// part.
std::vector<Case> causal_cases() {
  return {{"one token", 1, heads_of(12)},
          {"five tokens", 5, heads_of(12)},
          {"grouped heads", 29, heads_of(4)},
          {"several blocks", 300, heads_of(12)},
          {"a short window", 150, heads_of(4, 3)},
          {"a long window", 150, heads_of(12, 100)},
          {"dropout", 13, heads_of(4, 0, 0.3)},
          {"dropout in a window", 16, heads_of(12, 4, 0.3)},
          {"documents", 21, heads_of(4), true},
          {"documents in a window", 21, heads_of(12, 5), true},
          {"documents and dropout", 21, heads_of(12, 0, 0.3), true},
          {"tiles", 1040, heads_of(4)},
          {"tiles in a window", 1040, heads_of(12, 130)}};
}

// As a UNet has them, with its heads over either axis.
std::vector<Case> image_cases() {
  std::vector<Case> cases = {
      {"few pixels", 4, heads_of(12)}, {"pixels", 150, heads_of(12)}, {"over y", 36, heads_of(12)}};
  for (Case& each : cases) each.options.causal = false;
  cases[2].options.axis = Axis::y;
  return cases;
}

// Documents of 2 to 9 tokens.
at::Tensor begins_of(int64_t rows, int64_t sequence) {
  const at::Tensor places = at::arange(sequence, at::kLong);
  return (places - places.remainder(9)).maximum(places - places.remainder(11)).expand({rows, sequence});
}

struct Outcome {
  at::Tensor output, gradient;
  std::vector<RequestRecord> moved;  // by divided rows
};

Outcome outcome_of(Context& context, const Case& each) {
  const int64_t of_keys = each.options.keys() * kEach;
  const Layout layout = Layout::over(each.options.axis, {kFeatures, of_keys, of_keys});
  Value qkv = my_value(context, whole_tensor(1, {kBatch, each.sequence, kFeatures + 2 * of_keys}), layout);
  qkv.tensor = qkv.tensor.to(context.options().dtype).requires_grad_();
  context.set_samples({.seed = 3, .first = context.row_share().mine * qkv.tensor.size(0)});
  auto step = context.begin_step();
  const AttentionHeads heads = split_heads(context, qkv, each.options);
  const at::Tensor mask =
      each.documents ? document_mask(begins_of(qkv.tensor.size(0), each.sequence), heads.queries) : at::Tensor();
  const Value result = attention(context, heads, each.options, mask);
  const at::Tensor gradient = whole_tensor(2, {kBatch, each.sequence, kFeatures});
  result.tensor.backward(my_value(context, gradient, result.layout).tensor.to(context.options().dtype));
  step.finish();
  std::vector<RequestRecord> moved = context.scheduler().traffic().records();
  std::erase_if(moved, [](const RequestRecord& record) { return record.tag != "attention rows"; });
  return {.output = result.tensor.detach(), .gradient = qkv.tensor.grad(), .moved = std::move(moved)};
}

Context context_with(const GridShape& grid, AttentionRows rows, const OverlapPolicy& overlap = {},
                     at::ScalarType dtype = at::kDouble) {
  return Context(test_environment(), grid, {.dtype = dtype, .overlap = overlap, .forward = {.attention_rows = rows}});
}

// Whether a grid has ranks with the same heads.
bool divides(const GridShape& grid, const AttentionOptions& options) {
  return grid[other_tensor_axis(options.axis)] > 1 && options.keys() % grid[options.axis] == 0;
}

int64_t bytes_of(const std::vector<RequestRecord>& records) {
  int64_t bytes = 0;
  for (const RequestRecord& record : records) bytes += record.bytes;
  return bytes;
}

// Outputs of two parts, and the gradients of their queries, of the largest part from every rank;
// gradients of all keys and values.
int64_t bytes_of(const Context& context, const Case& each) {
  const int ranks = context.shape()[other_tensor_axis(each.options.axis)];
  const RowShare share = context.row_share();
  const int64_t rows = even_part(kBatch, static_cast<int>(share.groups), static_cast<int>(share.mine)).size(),
                size = context.shape()[each.options.axis];
  const int64_t gathered = 2 * ranks * most_query_rows(each.sequence, ranks) * kFeatures / size,
                summed = each.sequence * 2 * each.options.keys() * kEach / size;
  return kBytes * rows * (2 * gathered + summed);
}

void expect_the_same_with_divided_rows(const std::vector<Case>& cases) {
  for (const GridShape& grid : every_grid()) {
    Context whole = context_with(grid, AttentionRows::off), divided = context_with(grid, AttentionRows::on),
            blocking = context_with(grid, AttentionRows::on, OverlapPolicy::none());
    for (const Case& each : cases) {
      if (!divides(grid, each.options)) continue;
      const std::string what = std::string(each.name) + " on " + grid.to_string();
      const Outcome expected = outcome_of(whole, each), got = outcome_of(divided, each),
                    waited = outcome_of(blocking, each);
      expect_near(got.output, expected.output, what);
      expect_near(got.gradient, expected.gradient, what + ", gradient");
      EXPECT_TRUE(got.output.equal(waited.output) && got.gradient.equal(waited.gradient)) << what << ", blocking";
      EXPECT_TRUE(expected.moved.empty()) << what;
      EXPECT_EQ(bytes_of(got.moved), bytes_of(divided, each)) << what;
    }
  }
}

TEST(AttentionRowsOnEveryGrid, AreThoseOfAllRows) { expect_the_same_with_divided_rows(causal_cases()); }

TEST(AttentionRowsOnEveryGrid, AreThoseOfAllPixels) { expect_the_same_with_divided_rows(image_cases()); }

// Beside fp64 on all rows.
TEST(AttentionRowsOnEveryGrid, RoundLikeTheirType) {
  const Case each = {"tiles", 1040, heads_of(4)};
  for (const GridShape& grid : every_grid()) {
    if (!divides(grid, each.options)) continue;
    Context whole = context_with(grid, AttentionRows::off),
            divided = context_with(grid, AttentionRows::on, {}, at::kBFloat16);
    const Outcome expected = outcome_of(whole, each), got = outcome_of(divided, each);
    const auto difference = [](const at::Tensor& a, const at::Tensor& b) {
      return ((a.to(at::kDouble) - b).abs().max() / b.abs().max()).item<double>();
    };
    EXPECT_LE(difference(got.output, expected.output), 4e-2) << grid.to_string();
    EXPECT_LE(difference(got.gradient, expected.gradient), 4e-2) << grid.to_string();
  }
}

// A query of s tokens sees (s + 1) / 2 keys in the mean. It saves 12 FLOPs per feature and key, and
// 2 x 3 x 8 bytes per feature move.
TEST(AttentionRows, AreDividedByThemselvesWhereThatIsEstimatedToPay) {
  EXPECT_EQ(mean_scores(9, 0), 5);
  EXPECT_EQ(mean_scores(4, 2), 1.75);
  EXPECT_TRUE((RowsTrade{.scores = 81, .queries = 10, .keys_values = 20, .element_bytes = 8}.pays(20)));
  EXPECT_FALSE((RowsTrade{.scores = 80, .queries = 10, .keys_values = 20, .element_bytes = 8}.pays(20)));
  Context context = context_with({.y = test_environment().ranks()}, AttentionRows::automatic);
  const bool messages = context.communicators()[Axis::y].sends_messages();
  for (const int64_t sequence : {100, 500}) {
    const double balance = messages ? kBalanceOfMessages : kBalanceInMemory;
    const bool pays = 12 * static_cast<double>(sequence + 1) / 2 > 48 * balance;
    EXPECT_EQ(!outcome_of(context, {"", sequence, heads_of(12)}).moved.empty(), pays) << sequence;
  }
}

TEST(AttentionRows, AreDividedByWhatWasMeasured) {
  const int ranks = test_environment().ranks();
  const auto divides = [&](double balance) {
    Context context(test_environment(), {.y = ranks},
                    {.dtype = at::kDouble,
                     .forward = {.attention_rows = AttentionRows::automatic},
                     .attention_balance = {.y = balance}});
    return !outcome_of(context, {"", 100, heads_of(12)}).moved.empty();
  };
  // 12 FLOPs per feature and key, 50.5 keys, 2 x 3 x 8 bytes per feature.
  EXPECT_TRUE(divides(12.6));
  EXPECT_FALSE(divides(12.7));
}

// An attention may keep out, as one that reads a cache does.
TEST(AttentionRows, StayWholeWhereALayerSaysSo) {
  Context context = context_with({.y = test_environment().ranks()}, AttentionRows::on);
  AttentionOptions options = heads_of(12);
  options.divides_rows = false;
  EXPECT_TRUE(outcome_of(context, {"", 32, options}).moved.empty());
}

}  // namespace
}  // namespace axonn
