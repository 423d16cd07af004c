// Ranks divide the rows of a residual stream: outputs and gradients are those of whole rows, every
// policy has the same bits, and what moves is as long as a formula says.
#include "axonn/layers/blocks/stream_layout.hpp"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "axonn/layers/blocks/interleave.hpp"
#include "axonn/layers/blocks/mlp.hpp"
#include "axonn/layers/blocks/residual_stream.hpp"
#include "axonn/layers/dropout.hpp"
#include "axonn/layers/embedding.hpp"
#include "axonn/layers/gelu.hpp"
#include "axonn/layers/linear.hpp"
#include "axonn/layers/swiglu.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kFeatures = 10, kVocabulary = 13, kLength = 10;

Context context_with(const GridShape& grid, NormRows rows, const OverlapPolicy& overlap = {},
                     LinearSchedule linear = LinearSchedule::mm_ar_c) {
  return Context(test_environment(), grid,
                 {.dtype = at::kDouble, .overlap = overlap, .forward = {.linear = linear, .norm_rows = rows}});
}

std::vector<GridShape> grids_with_x() {
  std::vector<GridShape> grids = every_grid();
  std::erase_if(grids, [](const GridShape& grid) { return grid.x == 1; });
  return grids;
}

// This rank's rows of a whole tensor (batch, sequence, features), as a layout has them.
at::Tensor my_part(const Context& context, const at::Tensor& whole, const Layout& layout) {
  const at::Tensor mine = my_value(context, whole, layout.with_rows({})).tensor;
  if (layout.rows.empty()) return mine;
  const Range rows = layout.my_rows(context);
  return mine.flatten(0, 1).narrow(0, rows.begin, rows.size()).contiguous();
}

// A decoder without attention, from the same numbers on every grid.
class Network : public torch::nn::Module {
 public:
  Network(Context& context, bool centred, int64_t rank_of_adapters)
      : context_(context),
        tokens_(context, {.vocabulary = kVocabulary, .features = kFeatures}),
        positions_(context, {.length = kLength, .features = kFeatures}),
        norm_(make_norm(context, {.features = kFeatures, .centred = centred})),
        mlp_(context,
             {.up = {.in = kFeatures, .out = 14, .low_rank = {.rank = rank_of_adapters}},
              .down = {.in = 14, .out = kFeatures, .transposed = true, .low_rank = {.rank = rank_of_adapters}}}),
        last_(make_norm(context, {.features = kFeatures, .centred = centred})),
        head_(context, {.in = kFeatures, .out = kVocabulary, .bias = false, .pad_output = true}) {
    register_module("tokens", tokens_.ptr());
    register_module("positions", positions_.ptr());
    register_module("norm", norm_);
    register_module("mlp", mlp_.ptr());
    register_module("last", last_);
    register_module("head", head_.ptr());
  }

  // `places`, if given: those of all tokens.
  Value forward(const at::Tensor& ids, const at::Tensor& places, double probability) {
    const Value tokens = tokens_->forward(ids, stream_layout(context_, Axis::y, ids.sizes()));
    const Value placed = places.defined() ? positions_->forward(tokens, places) : positions_(tokens);
    divided_ = !placed.layout.rows.empty();
    ResidualStream stream(context_, dropout(context_, placed, probability, "embedding"),
                          {.dropout = probability, .name = "block"});
    stream.add(*norm_, *mlp_);
    return head_(last_->forward(stream.wait()));
  }

  bool divided() const { return divided_; }  // in the last forward

 private:
  Context& context_;
  Embedding tokens_;
  Positions positions_;
  std::shared_ptr<NormImpl> norm_;
  Mlp mlp_;
  std::shared_ptr<NormImpl> last_;
  Linear head_;
  bool divided_ = false;
};

struct Case {
  const char* name;
  int64_t batch, sequence;
  bool centred = false;
  double dropout = 0;
  bool places = false;
  int64_t rank_of_adapters = 0;
  bool freezes = false;  // all parameters but the adapters
};

// Rows that divide by x and that do not: 75 of them on grids of 2 and 4 ranks, 96 on others.
std::vector<Case> cases() {
  return {{"rms norms", 16, 6},
          {"layer norms", 16, 6, true},
          {"uneven rows", 15, 5, true},
          {"dropout", 15, 5, true, 0.3},
          {"places", 16, 7, false, 0.3, true},
          {"adapters", 16, 3, true, 0, false, 2},
          {"only adapters", 16, 3, true, 0, false, 2, true}};
}

struct Outcome {
  at::Tensor output;
  std::map<std::string, at::Tensor> gradients;
  std::vector<RequestRecord> over_x;
  LinearCounts products{};
  bool divided = false;
};

Outcome outcome_of(Context& context, const Case& each) {
  auto network = std::make_shared<Network>(context, each.centred, each.rank_of_adapters);
  const auto adapters = [](const std::string& name) { return name.find("lora_") != std::string::npos; };
  const Parameters parameters = each.freezes ? context.materialize(*network, {.seed = 1, .is_trained = adapters})
                                             : context.materialize(*network, 1);
  for (const ShardedParameter& parameter : parameters.list())  // none stays zero
    fill(context, parameter,
         whole_tensor(static_cast<int64_t>(parameter.name().size()), parameter.spec().global_shape()));
  const at::Tensor numbers = at::arange(each.batch * each.sequence, at::kLong).view({each.batch, each.sequence});
  const at::Tensor ids = my_rows(context, (numbers * 5).remainder(kVocabulary)),
                   places = my_rows(context, (numbers * 3).remainder(kLength));
  context.set_samples({.seed = 3, .first = context.row_share().mine * ids.size(0)});
  auto step = context.begin_step();
  const Value result = network->forward(ids, each.places ? places : at::Tensor(), each.dropout);
  result.tensor.backward(my_part(context, whole_tensor(2, {each.batch, each.sequence, kVocabulary}), result.layout));
  step.finish();
  Outcome outcome{.output = result.tensor.detach(),
                  .over_x = context.scheduler().traffic().records(),
                  .products = context.scheduler().linear_counts(),
                  .divided = network->divided()};
  std::erase_if(outcome.over_x, [](const RequestRecord& record) { return record.axes != AxisSet(Axis::x); });
  for (const ShardedParameter& parameter : parameters.list())
    outcome.gradients[parameter.name()] = parameter.gradient().clone();
  return outcome;
}

void expect_same_bits(const Outcome& one, const Outcome& other, const std::string& what) {
  EXPECT_TRUE(one.output.equal(other.output)) << what;
  for (const auto& [name, gradient] : one.gradients)
    EXPECT_TRUE(gradient.equal(other.gradients.at(name))) << what << ": " << name;
}

TEST(StreamRowsOnEveryGrid, EqualWholeRows) {
  for (const GridShape& grid : grids_with_x())
    for (const Case& each : cases()) {
      const std::string what = std::string(each.name) + " on " + grid.to_string();
      Context whole = context_with(grid, NormRows::off), divided = context_with(grid, NormRows::on);
      const Outcome expected = outcome_of(whole, each), got = outcome_of(divided, each);
      EXPECT_TRUE(got.divided && !expected.divided) << what;
      expect_near(got.output, expected.output, what);
      for (const auto& [name, gradient] : expected.gradients)
        expect_near(got.gradients.at(name), gradient, what + ": " + name);
    }
}

// The sum beside the product rounds as the whole product does, but for the parts of the product.
TEST(StreamRowsOnEveryGrid, HaveTheSameBitsUnderEveryPolicyAndEqualNumbersUnderEverySchedule) {
  const Case each = {"layer norms", 24, 10, true, 0.3};  // rows that divide: others are summed after the product
  for (const GridShape& grid : grids_with_x()) {
    Context plain = context_with(grid, NormRows::on);
    const Outcome expected = outcome_of(plain, each);
    for (const LinearSchedule linear : {LinearSchedule::mm_ar_c, LinearSchedule::mm_rs_c_ag, LinearSchedule::overlap}) {
      const std::string what = std::string(to_string(linear)) + " on " + grid.to_string();
      Context all = context_with(grid, NormRows::on, OverlapPolicy::all(), linear),
              none = context_with(grid, NormRows::on, OverlapPolicy::none(), linear);
      const Outcome overlapped = outcome_of(all, each), blocking = outcome_of(none, each);
      expect_same_bits(overlapped, blocking, what);
      expect_near(overlapped.output, expected.output, what);
      const LinearSchedule ran = linear == LinearSchedule::mm_ar_c ? LinearSchedule::mm_rs_c_ag : linear;
      EXPECT_GE(overlapped.products[static_cast<size_t>(ran)], 1) << what;
    }
  }
}

// m h elements: the embedding's and the MLP's output are scattered; the inputs of MLP and head are
// gathered, and again in backward, where their gradients are scattered and those of both outputs
// gathered. Besides, the gradients of norms and positions are summed.
TEST(StreamRowsOnEveryGrid, MoveAsManyBytesAsAFormulaSays) {
  for (const GridShape& grid : grids_with_x())
    for (const bool centred : {false, true}) {
      const Case each = {"bytes", 16, 6, centred};
      Context whole = context_with(grid, NormRows::off), divided = context_with(grid, NormRows::on);
      const auto bytes_of = [](const Outcome& outcome) {
        int64_t bytes = 0;
        for (const RequestRecord& record : outcome.over_x) bytes += record.bytes;
        return bytes;
      };
      const RowShare share = divided.row_share();
      const int64_t rows = 6 * even_part(16, static_cast<int>(share.groups), static_cast<int>(share.mine)).size();
      const int64_t features = Dim::split(kFeatures, Axis::y).local_size(grid, divided.at());
      const int64_t vectors = 2 * (centred ? 2 : 1) + kLength;
      EXPECT_EQ(bytes_of(outcome_of(whole, each)), 8 * 4 * rows * features) << grid.to_string();
      EXPECT_EQ(bytes_of(outcome_of(divided, each)), 8 * (10 * rows + vectors) * features) << grid.to_string();
    }
}

TEST(StreamRowsOnEveryGrid, AreScatteredAndGatheredInEvenParts) {
  const int ranks = test_environment().ranks();
  Context context = context_on({.x = ranks});
  for (const int64_t rows : {int64_t{ranks}, int64_t{13}, int64_t{64}}) {
    const auto summand = [&](int rank) { return whole_tensor(10 + rank, {rows, 5}); };
    at::Tensor sum = at::zeros({rows, 5}, at::kDouble);
    for (int rank = 0; rank < ranks; ++rank) sum += summand(rank);
    const Range mine = even_part(rows, ranks, context.at().x);
    const at::Tensor got = context.scheduler().scatter_rows(summand(context.at().x), Axis::x, "test").wait();
    expect_near(got, sum.narrow(0, mine.begin, mine.size()), "scattered");
    expect_near(context.scheduler().gather_rows(got, rows, Axis::x, "test").wait(), sum, "gathered");
  }
}

TEST(StreamRowsOnEveryGrid, AreCarriedBetweenLayouts) {
  for (const GridShape& grid : grids_with_x()) {
    Context context = context_on(grid);
    const at::Tensor whole = whole_tensor(1, {16, 3, 11}), grad = whole_tensor(2, {16, 3, 11});
    const std::vector<int64_t> rows = {my_rows(context, whole).size(0), 3};
    std::vector<Layout> layouts = {Layout::replicated(), Layout::over(Axis::x), Layout::over(Axis::y, {5, 6}),
                                   Layout::over(Axis::y).with_rows(rows),
                                   Layout::over(Axis::y, {2, 9}).with_rows(rows)};
    if (grid.y > 1) layouts.push_back(Layout::over(Axis::x).with_rows(rows));
    for (const Layout& from : layouts)
      for (const Layout& to : layouts) {
        Value mine{my_part(context, whole, from).requires_grad_(), 11, from};
        const Value result = redistribute(context, mine, to);
        result.tensor.backward(my_part(context, grad, to));
        const std::string what = from.to_string() + " -> " + to.to_string() + " on " + grid.to_string();
        EXPECT_TRUE(result.tensor.detach().equal(my_part(context, whole, to))) << what;
        EXPECT_TRUE(mine.tensor.grad().equal(my_part(context, grad, from))) << what;
      }
  }
}

// The gradient of the bias that gelu() adds, with rows that are divided before it or not.
at::Tensor gradient_of_bias(const GridShape& grid, bool divided) {
  Context context = context_on(grid);
  Linear layer(context, {.in = 10, .out = 12, .adds_bias = false, .transposed = true});
  const Parameters parameters = context.materialize(*layer, 1);
  auto step = context.begin_step();
  const Value hidden = layer(my_value(context, whole_tensor(1, {16, 3, 10}), layer->input_layout()));
  const Layout layout = divided ? hidden.layout.with_rows(hidden.leading()) : hidden.layout;
  const Value result = gelu(redistribute(context, hidden, layout), layer->bias());
  result.tensor.backward(my_part(context, whole_tensor(2, {16, 3, 12}), result.layout));
  step.finish();
  return parameters["bias"].gradient().clone();
}

TEST(StreamRowsOnEveryGrid, SumTheGradientOfABiasThatGeluAdds) {
  for (const GridShape& grid : grids_with_x())
    expect_near(gradient_of_bias(grid, true), gradient_of_bias(grid, false), grid.to_string());
}

// 257 + 1 is 256 if each summand is rounded to bf16, and 258 fits.
TEST(StreamRows, SumNarrowGradientsInFp32) {
  const int ranks = test_environment().ranks();
  Context context(test_environment(), {.x = ranks}, {.dtype = at::kBFloat16, .gradient_dtype = at::kBFloat16});
  Positions positions(context, {.length = 1, .features = 1});
  const Parameters parameters = context.materialize(*positions, 1);
  const Layout divided = Layout::over(Axis::y).with_rows({2 * ranks, 1});
  at::Tensor gradient = at::zeros({2 * ranks, 1}, at::kBFloat16);
  gradient[0] = 256, gradient[1] = 1, gradient[2] = 1;
  auto step = context.begin_step();
  const Value placed = positions->forward(Value{at::zeros({2, 1}, at::kBFloat16), 1, divided});
  placed.tensor.backward(gradient.narrow(0, int64_t{2} * context.at().x, 2));
  step.finish();
  EXPECT_EQ(parameters["weight"].gradient().item<float>(), 258);
}

TEST(StreamRows, StayDividedInSwiglu) {
  const Layout halves = Layout::over(Axis::y, {3, 3}).with_rows({2, 5});
  EXPECT_EQ(swiglu({at::ones({5, 6}), 6, halves}).layout, Layout::over(Axis::y).with_rows({2, 5}));
}

TEST(StreamRows, AreDividedByThemselvesWhereRanksShareMemory) {
  const int ranks = test_environment().ranks();
  Context context = context_with({.x = ranks}, NormRows::automatic);
  EXPECT_GE(context.communicators().on_cpu(AxisSet::all()).counters().collectives, 1);  // all ranks have agreed
  const bool messages = context.communicators()[Axis::x].sends_messages();
  EXPECT_EQ(stream_layout(context, Axis::y, {2, 9}).rows.empty(), messages);
  Context parts(test_environment(), {.x = ranks}, {.forward = {.split = 2, .norm_rows = NormRows::automatic}});
  EXPECT_TRUE(stream_layout(parts, Axis::y, {2, 9}).rows.empty());
}

TEST(StreamRows, StayWholeOnOneRankAndBelowARowPerRank) {
  const int ranks = test_environment().ranks();
  Context one = context_with({.data = ranks}, NormRows::on), several = context_with({.x = ranks}, NormRows::on);
  EXPECT_EQ(stream_layout(one, Axis::y, {2, 9}), Layout::over(Axis::y));
  EXPECT_EQ(stream_layout(several, Axis::y, {1, ranks - 1}), Layout::over(Axis::y));
  EXPECT_EQ(stream_layout(several, Axis::y, {1, ranks}).rows, (std::vector<int64_t>{1, ranks}));
  EXPECT_EQ(Layout::over(Axis::y).with_rows({4, 12}).to_string(), "over y, rows [4, 12] over x");
}

TEST(StreamRows, ThatDoNotFitAreRefused) {
  const int ranks = test_environment().ranks();
  EXPECT_USER_ERROR(Context(test_environment(), {.x = ranks}, {.forward = {.split = 2, .norm_rows = NormRows::on}}),
                    "choose split = 1, or norm_rows off");
  Context context = context_on({.x = ranks}), one = context_on({.data = ranks});
  const auto value_of = [](at::IntArrayRef sizes, const Layout& layout) {
    return Value{at::ones(sizes, at::kDouble), sizes.back(), layout};
  };
  const Layout plain = Layout::over(Axis::y), divided = plain.with_rows({ranks, 3});
  EXPECT_USER_ERROR(redistribute(context, value_of({ranks, 2, 4}, plain), divided), "divide the rows of the value",
                    "rows [" + std::to_string(ranks) + ", 3] over x");
  EXPECT_USER_ERROR(Layout::replicated().with_rows({ranks, 3}), "layout 'replicated' has them over neither");
  EXPECT_USER_ERROR(redistribute(one, value_of({ranks, 3, 4}, plain), divided), "two ranks or more");
  Context parts(test_environment(), {.x = ranks}, {.dtype = at::kDouble, .forward = {.split = 2}});
  EXPECT_USER_ERROR(interleave(parts, {value_of({3, 4}, divided)}, {}), "takes parts of whole rows in turn");
  Embedding tokens(context, {.vocabulary = 5, .features = 4});
  EXPECT_USER_ERROR(tokens->forward(at::zeros({ranks, 2}, at::kLong), divided), "take what stream_layout() returns");
  Linear down(context, {.in = 6, .out = 4, .transposed = true});
  const Value input = value_of({ranks, 2, down->input_layout().dim(6).local_size(context.shape(), context.at())},
                               Layout::over(Axis::x));
  EXPECT_USER_ERROR(down->launch({input.tensor, 6, input.layout}, {.stream = value_of({3, 4}, divided)}),
                    "a stream whose rows are divided must have the rows of the output");
  Positions positions(context, {.length = 7, .features = 4});
  EXPECT_USER_ERROR(positions->forward(value_of({3, 4}, divided), std::vector<int64_t>(static_cast<size_t>(ranks))),
                    "this layer needs 'over y'");
}

}  // namespace
}  // namespace axonn
