// Embedding, positions, norm and attention on every grid against LibTorch on the whole tensors.
#include "axonn/layers/attention.hpp"

#include <ATen/Parallel.h>

#include "axonn/kernels/choice/attention_products.hpp"
#include "axonn/layers/embedding.hpp"
#include "axonn/layers/norms/layer_norm.hpp"
#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using namespace test;

at::Tensor whole_ids(int64_t seed, at::IntArrayRef sizes, int64_t vocabulary) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return at::randint(vocabulary, sizes, generator, at::TensorOptions().dtype(at::kLong));
}

TEST(EmbeddingOnEveryGrid, EqualsSerial) {
  for (const GridShape& grid : every_grid())
    for (const int64_t vocabulary : {16, 5, 21}) {
      Context context = context_on(grid);
      Embedding layer(context, {.vocabulary = vocabulary, .features = 10});
      const Parameters parameters = context.materialize(*layer, 1);
      const at::Tensor table = whole_tensor(1, {vocabulary, 10}).requires_grad_(),
                       ids = whole_ids(2, {16, 3}, vocabulary), grad = whole_tensor(3, {16, 3, 10});
      fill(context, parameters["weight"], table);
      const at::Tensor output = at::embedding(table, ids);
      output.backward(grad);
      auto step = context.begin_step();
      const Value mine = layer(my_rows(context, ids));
      mine.tensor.backward(my_value(context, grad, mine.layout).tensor);
      step.finish();
      expect_near(mine.tensor.detach(), my_value(context, output.detach(), mine.layout).tensor,
                  "embedding on " + grid.to_string());
      expect_gradient(context, parameters["weight"], table.grad(), "embedding");
    }
}

TEST(PositionsOnEveryGrid, EqualSerial) {
  for (const GridShape& grid : every_grid()) {
    Context context = context_on(grid);
    Positions layer(context, {.length = 7, .features = 10});
    const Parameters parameters = context.materialize(*layer, 1);
    const at::Tensor table = whole_tensor(1, {7, 10}).requires_grad_(), input = whole_tensor(2, {16, 5, 10}),
                     grad = whole_tensor(3, {16, 5, 10});
    fill(context, parameters["weight"], table);
    const at::Tensor output = input + table.narrow(0, 0, 5);
    output.backward(grad);
    auto step = context.begin_step();
    const Value mine = layer(my_value(context, input, Layout::over(Axis::y)));
    mine.tensor.backward(my_value(context, grad, mine.layout).tensor);
    step.finish();
    expect_near(mine.tensor.detach(), my_value(context, output.detach(), mine.layout).tensor,
                "positions on " + grid.to_string());
    expect_gradient(context, parameters["weight"], table.grad(), "positions");
  }
}

// With a mean of 1000, a sum of squares would lose six digits.
TEST(LayerNormOnEveryGrid, EqualsSerialAlsoFarFromZero) {
  for (const GridShape& grid : every_grid())
    for (const double mean : {0.0, 1000.0})
      for (const int64_t features : {24, 17}) {
        Context context = context_on(grid);
        LayerNorm layer(context, {.features = features});
        const Parameters parameters = context.materialize(*layer, 1);
        const at::Tensor weight = whole_tensor(1, {features}).requires_grad_(),
                         bias = whole_tensor(2, {features}).requires_grad_();
        fill(context, parameters["weight"], weight);
        fill(context, parameters["bias"], bias);
        const at::Tensor input = (whole_tensor(3, {16, 2, features}) + mean).requires_grad_(),
                         grad = whole_tensor(4, {16, 2, features});
        const at::Tensor output = at::layer_norm(input, {features}, weight, bias, 1e-5);
        output.backward(grad);
        Value mine = my_value(context, input.detach(), Layout::over(Axis::y));
        mine.tensor.requires_grad_();
        auto step = context.begin_step();
        const Value result = layer(mine);
        result.tensor.backward(my_value(context, grad, result.layout).tensor);
        step.finish();
        const std::string what = "norm on " + grid.to_string();
        const double tolerance = mean == 0 ? 1e-12 : 1e-10;  // the input itself has three digits fewer
        EXPECT_LE((result.tensor.detach() - my_value(context, output.detach(), result.layout).tensor)
                      .abs()
                      .max()
                      .item<double>(),
                  tolerance * 10)
            << what;
        EXPECT_LE(
            (mine.tensor.grad() - my_value(context, input.grad(), result.layout).tensor).abs().max().item<double>(),
            tolerance * 10)
            << what;
        if (mean != 0) continue;
        expect_gradient(context, parameters["weight"], weight.grad(), what);
        expect_gradient(context, parameters["bias"], bias.grad(), what);
      }
}

// Sequences of one block of queries and of several; as many heads of keys and values as of queries,
// and fewer.
TEST(AttentionOnEveryGrid, EqualsSerial) {
  const int64_t heads = 24, each = 2, features = heads * each;
  for (const auto& [sequence, keys] : {std::pair<int64_t, int64_t>{5, 24}, {150, 24}, {5, 8}, {150, 8}}) {
    const int64_t of_keys = keys * each;
    const at::Tensor qkv = whole_tensor(1, {16, sequence, features + 2 * of_keys}).requires_grad_(),
                     grad = whole_tensor(2, {16, sequence, features});
    const auto by_head = [&](int64_t first, int64_t count) {
      const at::Tensor part = qkv.narrow(2, first, count * each).view({16, sequence, count, each}).transpose(1, 2);
      return part.repeat_interleave(heads / count, 1);
    };
    const at::Tensor output = at::scaled_dot_product_attention(by_head(0, heads), by_head(features, keys),
                                                               by_head(features + of_keys, keys), {}, 0.0, true)
                                  .transpose(1, 2)
                                  .reshape({16, sequence, features});
    output.backward(grad);
    for (const GridShape& grid : every_grid()) {
      if (heads % grid.x != 0 || keys % grid.x != 0) continue;
      Context context = context_on(grid);
      const std::string what = " of " + std::to_string(sequence) + " tokens and " + std::to_string(keys) +
                               " heads of keys on " + grid.to_string();
      Value mine = my_value(context, qkv.detach(), Layout::over(Axis::x, {features, of_keys, of_keys}));
      mine.tensor.requires_grad_();
      const AttentionOptions options = {.heads = heads, .kv_heads = keys};
      const Value result = attention(context, split_heads(context, mine, options), options);
      result.tensor.backward(my_value(context, grad, result.layout).tensor);
      expect_near(result.tensor.detach(), my_value(context, output.detach(), result.layout).tensor, "attention" + what);
      expect_near(mine.tensor.grad(), my_value(context, qkv.grad(), mine.layout).tensor, "attention gradient" + what);
    }
  }
}

// Queries that another operation made, such as a rotation, have their gradient; so have keys and
// values when nothing reads the queries.
TEST(AttentionHeads, MayComeFromAnywhere) {
  Context context(test_environment(), factorisations(test_environment().ranks()).front());
  const AttentionOptions options = {.heads = 4};
  const at::Tensor whole = whole_tensor(1, {2, 7, 72}), grad = whole_tensor(2, {2, 7, 24});
  const auto gradient_with = [&](bool split, double factor) {
    const at::Tensor qkv = whole.clone().requires_grad_();
    AttentionHeads heads = split_heads(context, {qkv, 72, Layout::over(Axis::x, {24, 24, 24})}, options);
    heads.queries = factor == 0 ? heads.queries.detach() : heads.queries * factor;
    if (!split) {
      const auto parts = qkv.view({2, 7, 3, 4, 6}).unbind(2);
      heads = {factor == 0 ? parts[0].detach() : parts[0] * factor, parts[1], parts[2]};
    }
    attention(context, heads, options).tensor.backward(grad);
    return qkv.grad();
  };
  for (const double factor : {0.0, 3.0})
    EXPECT_TRUE(gradient_with(true, factor).equal(gradient_with(false, factor))) << factor;
}

// On one rank, against LibTorch in fp64, in every type and with both types of products; on two
// threads the same bits.
TEST(CausalAttention, RoundsLikeItsTypesOnAnyNumberOfThreads) {
  struct Row {
    at::ScalarType dtype;
    AttentionProducts products;
    double tolerance;
  };
  const int threads = at::get_num_threads();
  for (const Row& row :
       {Row{at::kDouble, AttentionProducts::own, 1e-14}, Row{at::kFloat, AttentionProducts::own, 1e-6},
        Row{at::kBFloat16, AttentionProducts::own, 2e-2}, Row{at::kBFloat16, AttentionProducts::fp32, 8e-3},
        Row{at::kHalf, AttentionProducts::fp32, 1e-3}}) {
    Context context(test_environment(), factorisations(test_environment().ranks()).front(),
                    {.dtype = row.dtype, .attention = row.products});
    const at::Tensor qkv = whole_tensor(1, {3, 150, 72}).to(row.dtype),
                     grad = whole_tensor(2, {3, 150, 24}).to(row.dtype);
    const at::Tensor wide = qkv.to(at::kDouble).requires_grad_();
    const auto parts = wide.view({3, 150, 3, 4, 6}).unbind(2);
    const at::Tensor expected = at::scaled_dot_product_attention(parts[0].transpose(1, 2), parts[1].transpose(1, 2),
                                                                 parts[2].transpose(1, 2), {}, 0.0, true)
                                    .transpose(1, 2)
                                    .reshape({3, 150, 24});
    expected.backward(grad.to(at::kDouble));
    std::array<at::Tensor, 2> outputs, gradients;
    for (const int at_once : {1, 2}) {
      at::set_num_threads(at_once);
      Value mine{qkv.detach().clone().requires_grad_(), 72, Layout::over(Axis::x, {24, 24, 24})};
      const Value result = attention(context, split_heads(context, mine, {.heads = 4}), {.heads = 4});
      result.tensor.backward(grad);
      outputs[static_cast<size_t>(at_once) - 1] = result.tensor.detach();
      gradients[static_cast<size_t>(at_once) - 1] = mine.tensor.grad();
    }
    const auto expect_close = [&](const at::Tensor& got, const at::Tensor& need) {
      EXPECT_LE((got.to(at::kDouble) - need).abs().max().item<double>(),
                row.tolerance * need.abs().max().item<double>())
          << c10::toString(row.dtype) << " " << to_string(row.products);
    };
    expect_close(outputs[0], expected.detach());
    expect_close(gradients[0], wide.grad());
    EXPECT_TRUE(outputs[0].equal(outputs[1]));
    EXPECT_TRUE(gradients[0].equal(gradients[1]));
  }
  at::set_num_threads(threads);
}

TEST(Attention, ChoosesTheTypeOfItsProductsOnRank0) {
  Communicator& world = test_environment().world();
  EXPECT_EQ(choose_attention_products(world, at::kFloat, c10::kCPU), AttentionProducts::own);
  EXPECT_EQ(choose_attention_products(world, at::kBFloat16, c10::kCUDA), AttentionProducts::own);
  const auto chosen = static_cast<int64_t>(choose_attention_products(world, at::kBFloat16, c10::kCPU));
  const at::Tensor mine = at::full({1}, chosen, at::kLong), first = mine.clone();
  world.broadcast(first, 0).wait();
  EXPECT_TRUE(first.equal(mine));
}

TEST(Attention, OfLongSequencesAndOnGpusIsLeftToTheFusedKernel) {
  EXPECT_EQ(attention_block(50, c10::kCPU), 50);
  EXPECT_EQ(attention_block(256, c10::kCPU), 64);
  EXPECT_EQ(attention_block(1024, c10::kCPU), 128);
  EXPECT_EQ(attention_block(1025, c10::kCPU), 0);
  EXPECT_EQ(attention_block(100, c10::kCUDA), 0);
}

TEST(RedistributeOnEveryGrid, CarriesValuesAndGradientsBetweenAllLayouts) {
  const std::vector<Layout> layouts = {Layout::replicated(),          Layout::over(Axis::x),
                                       Layout::over(Axis::y),         Layout::over(Axis::x, {5, 6}),
                                       Layout::over(Axis::y, {2, 9}), {.axis = Axis::x, .padded = true}};
  for (const GridShape& grid : every_grid())
    for (const Layout& from : layouts)
      for (const Layout& to : layouts) {
        Context context = context_on(grid);
        const at::Tensor whole = whole_tensor(1, {16, 11}), grad = whole_tensor(2, {16, 11});
        Value mine = my_value(context, whole, from);
        mine.tensor.requires_grad_();
        const Value result = redistribute(context, mine, to);
        result.tensor.backward(my_value(context, grad, to).tensor);
        const std::string what = from.to_string() + " -> " + to.to_string() + " on " + grid.to_string();
        EXPECT_TRUE(result.tensor.detach().equal(my_value(context, whole, to).tensor)) << what;
        EXPECT_TRUE(mine.tensor.grad().equal(my_value(context, grad, from).tensor)) << what;
      }
}

}  // namespace
}  // namespace axonn
