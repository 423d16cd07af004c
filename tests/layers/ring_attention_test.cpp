// Ranks along Z divide sequences: outputs and gradients are those of all tokens on one rank, and
// what moves is as long as a formula says.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/attention.hpp"
#include "axonn/layers/my_tokens.hpp"
#include "axonn/layers/dropout.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kBatch = 4, kHeads = 12, kEach = 2, kFeatures = kHeads * kEach;
constexpr int64_t kBytes = 8;  // per element

struct Case {
  const char* name;
  int64_t part;  // tokens of each of the 2 * context parts of a sequence
  AttentionOptions options;
  bool documents = false;
};

// 12 heads on every grid of up to 4 ranks, and 4 or 12 of keys.
AttentionOptions heads_of(int64_t keys, int64_t window = 0, double dropout = 0) {
  return {.heads = kHeads, .kv_heads = keys, .window = window, .dropout = dropout, .dropout_name = "probabilities"};
}

// Parts of one token, of one block of queries, and of several, whose keys come in pieces that
// differ by a row; windows shorter and longer than a part.
std::vector<Case> cases() {
  return {{"parts of a token", 1, heads_of(12)},
          {"grouped heads", 5, heads_of(4)},
          {"several blocks", 257, heads_of(12)},
          {"a short window", 20, heads_of(4, 3)},
          {"a window of a part", 20, heads_of(12, 20)},
          {"a long window", 20, heads_of(12, 47)},
          {"a window of several parts", 70, heads_of(4, 200)},
          {"dropout", 7, heads_of(4, 0, 0.3)},
          {"dropout in a window", 4, heads_of(12, 5, 0.3)},
          {"documents", 6, heads_of(4), true},
          {"documents in a window", 6, heads_of(12, 5), true},
          {"documents and dropout", 6, heads_of(12, 0, 0.3), true},
          {"documents and dropout in pieces and a window", 257, heads_of(4, 300, 0.3), true}};
}

// Documents of 2 to 9 tokens.
at::Tensor begins_of(int64_t rows, int64_t sequence) {
  const at::Tensor places = at::arange(sequence, at::kLong);
  return (places - places.remainder(9)).maximum(places - places.remainder(11)).expand({rows, sequence});
}

struct Outcome {
  at::Tensor output, gradient;       // this rank's
  std::vector<RequestRecord> moved;  // by the ring
};

// This rank's part of (batch, sequence, features).
Value mine_of(const Context& context, const at::Tensor& whole, const Layout& layout) {
  const RowShare share = context.row_share();
  const Range rows = even_part(whole.size(0), static_cast<int>(share.groups), static_cast<int>(share.mine));
  const at::Tensor mine = my_tokens(context, whole.narrow(0, rows.begin, rows.size()));
  return {my_features(context, mine, layout), whole.size(-1), layout};
}

Layout layout_of(const Case& each) {
  const int64_t of_keys = each.options.keys() * kEach;
  return Layout::over(each.options.axis, {kFeatures, of_keys, of_keys});
}

Outcome outcome_of(Context& context, const Case& each, int64_t sequence) {
  const at::Tensor whole = whole_tensor(1, {kBatch, sequence, kFeatures + 2 * each.options.keys() * kEach});
  Value qkv = mine_of(context, whole, layout_of(each));
  qkv.tensor = qkv.tensor.to(context.options().dtype).requires_grad_();
  const int64_t rows = qkv.tensor.size(0), tokens = qkv.tensor.size(1);
  context.set_samples({.seed = 3, .first = context.row_share().mine * rows});
  auto step = context.begin_step();
  const AttentionHeads heads = split_heads(context, qkv, each.options);
  const at::Tensor mask =
      each.documents ? document_mask(begins_of(rows, sequence), heads.queries, my_places(context, tokens, at::kCPU))
                     : at::Tensor();
  const Value result = attention(context, heads, each.options, mask);
  const at::Tensor gradient = whole_tensor(2, {kBatch, sequence, kFeatures});
  result.tensor.backward(mine_of(context, gradient, result.layout).tensor.to(context.options().dtype));
  step.finish();
  std::vector<RequestRecord> moved = context.scheduler().traffic().records();
  std::erase_if(moved, [](const RequestRecord& record) { return record.tag != "context"; });
  return {.output = result.tensor.detach(), .gradient = qkv.tensor.grad(), .moved = std::move(moved)};
}

// That of one rank. A case has a name of its own, and is computed once for all grids.
const Outcome& whole_of(const Case& each, int64_t sequence) {
  static std::map<std::pair<std::string, int64_t>, Outcome> known;
  const std::pair key(std::string(each.name), sequence);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  Context alone(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
  return known.emplace(key, outcome_of(alone, each, sequence)).first->second;
}

// The same, cut to what `context` has.
Outcome expected_of(const Context& context, const Case& each, int64_t sequence) {
  const Outcome& whole = whole_of(each, sequence);
  return {.output = mine_of(context, whole.output, Layout::over(each.options.axis)).tensor,
          .gradient = mine_of(context, whole.gradient, layout_of(each)).tensor,
          .moved = {}};
}

Context context_with(const GridShape& grid, const ForwardSchedule& forward, const OverlapPolicy& overlap = {},
                     at::ScalarType dtype = at::kDouble) {
  return Context(test_environment(), grid, {.dtype = dtype, .overlap = overlap, .forward = forward});
}

int64_t bytes_of(const std::vector<RequestRecord>& records) {
  int64_t bytes = 0;
  for (const RequestRecord& record : records) bytes += record.bytes;
  return bytes;
}

// Keys and values of this rank's tokens, context - 1 times forward; they and their gradients as
// often backward.
int64_t bytes_of(const Context& context, const Case& each) {
  const int64_t ranks = context.options().forward.context, rows = kBatch / context.row_share().groups;
  return 3 * (ranks - 1) * kBytes * rows * 2 * each.part * 2 * each.options.keys() * kEach / context.shape().x;
}

// Every grid of these ranks, with every context above 1 that divides its z.
template <typename Work>
void for_each_context(const Work& work) {
  for (const GridShape& grid : every_grid())
    for (int64_t context = 2; context <= grid.z; ++context)
      if (grid.z % context == 0 && kBatch % row_groups(grid, context) == 0 && 4 % grid.x == 0) work(grid, context);
}

void expect_those_of_one_rank(const std::vector<Case>& cases, AttentionRows rows) {
  for_each_context([&](const GridShape& grid, int64_t ranks) {
    const ForwardSchedule forward{.attention_rows = rows, .context = ranks};
    Context context = context_with(grid, forward), blocking = context_with(grid, forward, OverlapPolicy::none());
    for (const Case& each : cases) {
      const std::string what =
          std::string(each.name) + " on " + grid.to_string() + ", context " + std::to_string(ranks);
      const int64_t sequence = 2 * ranks * each.part;
      const Outcome expected = expected_of(context, each, sequence), got = outcome_of(context, each, sequence),
                    waited = outcome_of(blocking, each, sequence);
      expect_near(got.output, expected.output, what);
      expect_near(got.gradient, expected.gradient, what + ", gradient");
      EXPECT_TRUE(got.output.equal(waited.output) && got.gradient.equal(waited.gradient)) << what << ", blocking";
      EXPECT_EQ(bytes_of(got.moved), bytes_of(context, each)) << what;
    }
  });
}

TEST(RingAttentionOnEveryGrid, IsThatOfOneRank) { expect_those_of_one_rank(cases(), AttentionRows::off); }

// Ranks along Y have the same heads and tokens, and divide these tokens' queries.
TEST(RingAttentionOnEveryGrid, IsThatOfOneRankWithDividedQueries) {
  expect_those_of_one_rank(cases(), AttentionRows::on);
}

TEST(RingAttentionOnEveryGrid, IsThatOfOneRankWithoutAMask) {
  std::vector<Case> all = {{"pixels", 5, heads_of(4)}};
  all[0].options.causal = false;
  expect_those_of_one_rank(all, AttentionRows::off);
}

// Beside fp64 on one rank. Scores and sums are in fp32.
TEST(RingAttentionOnEveryGrid, RoundsLikeItsType) {
  const Case each = {"bf16", 80, heads_of(4)};
  for_each_context([&](const GridShape& grid, int64_t ranks) {
    Context context = context_with(grid, {.context = ranks}, {}, at::kBFloat16);
    const int64_t sequence = 2 * ranks * each.part;
    const Outcome expected = expected_of(context, each, sequence), got = outcome_of(context, each, sequence);
    const auto difference = [](const at::Tensor& a, const at::Tensor& b) {
      return ((a.to(at::kDouble) - b).abs().max() / b.abs().max()).item<double>();
    };
    EXPECT_LE(difference(got.output, expected.output), 4e-2) << grid.to_string();
    EXPECT_LE(difference(got.gradient, expected.gradient), 4e-2) << grid.to_string();
  });
}

// The scheduler lends the buffers that go round.
TEST(RingAttention, AllocatesNothingInASteadyState) {
  const int ranks = test_environment().ranks();
  Context context = context_with({.z = ranks}, {.context = ranks});
  const Case each = {"steady", 8, heads_of(4)};
  for (int step = 0; step < 2; ++step) outcome_of(context, each, 2 * ranks * each.part);
  const int64_t allocations = context.scheduler().pool().allocations();
  EXPECT_GT(allocations, 0);
  for (int step = 0; step < 5; ++step) outcome_of(context, each, 2 * ranks * each.part);
  EXPECT_EQ(context.scheduler().pool().allocations(), allocations);
}

// An attention whose tokens are all there, as one that reads a cache has them.
TEST(RingAttention, IsNotWhereALayerSaysSo) {
  const int ranks = test_environment().ranks();
  Context context = context_with({.z = ranks}, {.context = ranks});
  AttentionOptions options = heads_of(12);
  options.divides_rows = false;
  const at::Tensor whole = whole_tensor(1, {2, 5, 3 * kFeatures});
  const Value qkv{whole.clone(), 3 * kFeatures, Layout::over(Axis::x, {kFeatures, kFeatures, kFeatures})};
  Context alone(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
  const Value got = attention(context, split_heads(context, qkv, options), options),
              expected = attention(alone, split_heads(alone, qkv, options), options);
  EXPECT_TRUE(got.tensor.equal(expected.tensor));
}

// The mask of a rank's tokens is a part of that of all tokens, whether ranks divide rows or not.
TEST(RingAttentionOnEveryGrid, HasTheDropoutOfOneRankAround) {
  for_each_context([&](const GridShape& grid, int64_t ranks) {
    const int64_t sequence = 6 * ranks;
    const at::Tensor whole = whole_tensor(4, {kBatch, sequence, kFeatures});
    const auto dropped = [&](Context& context, const Value& value) {
      context.set_samples({.seed = 5, .first = context.row_share().mine * kBatch / context.row_share().groups});
      return dropout(context, value, 0.4, "stream").tensor;
    };
    Context context = context_with(grid, {.context = ranks});
    Context alone(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
    const Layout layout = Layout::over(Axis::y);
    const at::Tensor expected =
        mine_of(context, dropped(alone, {whole, kFeatures, layout}), layout).tensor.contiguous();
    const Value all = mine_of(context, whole, layout);
    EXPECT_TRUE(dropped(context, all).equal(expected)) << grid.to_string();
    if (grid.x == 1) return;
    const Layout divided = layout.with_rows({all.tensor.size(0), all.tensor.size(1)});
    const Range rows = divided.my_rows(context);
    const auto cut = [&](const at::Tensor& some) {
      return some.reshape({-1, some.size(-1)}).narrow(0, rows.begin, rows.size());
    };
    EXPECT_TRUE(dropped(context, {cut(all.tensor), kFeatures, divided}).equal(cut(expected)))
        << grid.to_string() << ", divided rows";
  });
}

TEST(Context, OfSequencesThatDoNotDivideIsRefused) {
  const int ranks = test_environment().ranks();
  EXPECT_USER_ERROR(context_with({.data = ranks}, {.context = ranks}), "context must divide z");
  Context context = context_with({.z = ranks}, {.context = ranks});
  EXPECT_USER_ERROR(my_tokens(context, whole_tensor(1, {1, 2 * ranks + 1})), "must divide by 2 * context");
  EXPECT_USER_ERROR(
      attention(context,
                {whole_tensor(1, {1, 3, 12, 2}), whole_tensor(2, {1, 3, 12, 2}), whole_tensor(3, {1, 3, 12, 2})},
                heads_of(12)),
      "must divide by 2 * context");
}

}  // namespace
}  // namespace axonn
