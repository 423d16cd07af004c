// Layouts with divided rows: how values come into them and back, the layers that keep them, the
// ranks that divide rows, and what is refused.
#include "axonn/layers/blocks/stream_layout.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/blocks/interleave.hpp"
#include "axonn/layers/embedding.hpp"
#include "axonn/layers/gelu.hpp"
#include "axonn/layers/linear.hpp"
#include "axonn/layers/swiglu.hpp"
#include "layers/stream_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

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
