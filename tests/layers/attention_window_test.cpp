// Attention within a window, and with heads that are normalised and turned, beside LibTorch's.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/attention.hpp"
#include "axonn/layers/norms/head_norm.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kHeads = 4, kKeys = 2, kEach = 6, kQueries = kHeads * kEach, kOfKeys = kKeys * kEach;
const std::vector<int64_t> kSegments = {kQueries, kOfKeys, kOfKeys};

struct Plain {
  at::Tensor queries, keys, values;  // (batch, sequence, heads, features)
};

Plain plain_of(const at::Tensor& qkv) {
  const auto part = [&](int64_t first, int64_t heads) {
    return qkv.narrow(2, first, heads * kEach).reshape({qkv.size(0), qkv.size(1), heads, kEach});
  };
  return {part(0, kHeads), part(kQueries, kKeys), part(kQueries + kOfKeys, kKeys)};
}

// Query t sees keys t - window + 1 .. t.
at::Tensor attended(const Plain& heads, int64_t window) {
  const int64_t sequence = heads.queries.size(1);
  at::Tensor mask = at::ones({sequence, sequence}, at::kBool).tril();
  if (window > 0) mask = mask.triu(1 - window);
  const auto by_head = [](const at::Tensor& some) {
    return some.transpose(1, 2).repeat_interleave(kHeads / some.size(2), 1);
  };
  return at::scaled_dot_product_attention(by_head(heads.queries), by_head(heads.keys), by_head(heads.values), mask)
      .transpose(1, 2)
      .reshape({heads.queries.size(0), sequence, kQueries});
}

// Backward of attention in tiles, and in a ring, reads the output.
TEST(Attention, OutputThatIsChangedInPlaceIsRefused) {
  Context context = context_on({});
  const AttentionOptions options = {.heads = kHeads, .kv_heads = kKeys, .dropout = 0.1, .dropout_name = "dropped"};
  context.set_samples({.seed = 3, .first = 0});
  const at::Tensor mine = whole_tensor(1, {2, 8, kQueries + 2 * kOfKeys}).requires_grad_();
  const Value qkv{mine, kQueries + 2 * kOfKeys, Layout::over(Axis::x, kSegments)};
  const auto output = [&] { return attention(context, split_heads(context, qkv, options), options).tensor; };
  const at::Tensor changed = output();
  changed.mul_(2);
  EXPECT_USER_ERROR(changed.sum().backward(), "change a copy of it");
  output().mul(2).sum().backward();
}

struct Compared {
  at::Tensor output, gradient;
};

// Windows shorter and longer than a block of queries and than the sequence; lengths of one block,
// of several with and without a rest, and beyond what our own kernel takes.
TEST(AttentionInAWindow, SeesAsManyKeysAsItSays) {
  Context context = context_on({});
  for (const int64_t sequence : {5, 64, 150, 700, 1100})
    for (const int64_t window : {1, 2, 7, 63, 64, 65, 130, 600, 5000}) {
      if (sequence >= 700 && window != 7 && window != 600) continue;
      const std::string what = "window " + std::to_string(window) + " of " + std::to_string(sequence);
      const at::Tensor grad = whole_tensor(2, {2, sequence, kQueries});
      const at::Tensor theirs = whole_tensor(1, {2, sequence, kQueries + 2 * kOfKeys}).requires_grad_();
      const at::Tensor expected = attended(plain_of(theirs), window);
      expected.backward(grad);
      const at::Tensor mine = theirs.detach().clone().requires_grad_();
      const AttentionOptions options = {.heads = kHeads, .kv_heads = kKeys, .window = window};
      const Value qkv{mine, kQueries + 2 * kOfKeys, Layout::over(Axis::x, kSegments)};
      const at::Tensor output = attention(context, split_heads(context, qkv, options), options).tensor;
      output.backward(grad);
      expect_near(output.detach(), expected.detach(), what);
      expect_near(mine.grad(), theirs.grad(), what + ", gradient");
    }
  EXPECT_USER_ERROR(
      attention(context, {whole_tensor(1, {1, 2, 1, 2}), whole_tensor(1, {1, 2, 1, 2}), whole_tensor(1, {1, 2, 1, 2})},
                {.heads = 1, .causal = false, .window = 2}),
      "a window is for causal attention");
}

at::Tensor rms(const at::Tensor& heads, const at::Tensor& weight) {
  return heads * (heads.square().mean(-1, /*keepdim=*/true) + 1e-3).rsqrt() * weight;
}

at::Tensor turned(const at::Tensor& heads, const Rotary& rotary) {
  const int64_t half = kEach / 2;
  const at::Tensor angles =
      at::outer(at::arange(heads.size(1), at::kDouble), at::tensor(rotary.frequencies(), at::kDouble))
          .view({1, heads.size(1), 1, half});
  const at::Tensor a = heads.narrow(3, 0, half), b = heads.narrow(3, half, half);
  return at::cat({a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()}, 3);
}

// Norms come before the rotation. Their gradients are sums over the heads of all ranks.
TEST(HeadNormsOnEveryGrid, AndRotationsAreThoseOfTheirFormulas) {
  const auto rotary = std::make_shared<Rotary>(kEach, RotaryOptions{.theta = 50});
  for (const GridShape& grid : every_grid()) {
    if (kKeys % grid.x != 0) continue;
    Context context = context_on(grid);
    torch::nn::Module network;
    HeadNorm q_norm(context, {.features = kEach, .epsilon = 1e-3}),
        k_norm(context, {.features = kEach, .epsilon = 1e-3});
    network.register_module("q", q_norm.ptr());
    network.register_module("k", k_norm.ptr());
    const Parameters parameters = context.materialize(network, 1);
    const at::Tensor q_weight = whole_tensor(3, {kEach}).requires_grad_(),
                     k_weight = whole_tensor(4, {kEach}).requires_grad_();
    fill(context, parameters["q.weight"], q_weight);
    fill(context, parameters["k.weight"], k_weight);
    const at::Tensor whole = whole_tensor(1, {16, 9, kQueries + 2 * kOfKeys}).requires_grad_(),
                     grad = whole_tensor(2, {16, 9, kQueries});
    Plain heads = plain_of(whole);
    heads.queries = turned(rms(heads.queries, q_weight), *rotary);
    heads.keys = turned(rms(heads.keys, k_weight), *rotary);
    const at::Tensor expected = attended(heads, 0);
    expected.backward(grad);

    const AttentionOptions options = {.heads = kHeads, .kv_heads = kKeys, .rotary = rotary};
    Value mine = my_value(context, whole.detach(), Layout::over(Axis::x, kSegments));
    mine.tensor.requires_grad_();
    auto step = context.begin_step();
    const Value normed = norm_heads(context, mine, q_norm, k_norm, options);
    const Value result = attention(context, split_heads(context, normed, options), options);
    result.tensor.backward(my_value(context, grad, result.layout).tensor);
    step.finish();
    const std::string what = "on " + grid.to_string();
    expect_near(result.tensor.detach(), my_value(context, expected.detach(), result.layout).tensor, what);
    expect_near(mine.tensor.grad(), my_value(context, whole.grad(), mine.layout).tensor, what + ", gradient");
    expect_gradient(context, parameters["q.weight"], q_weight.grad(), what);
    expect_gradient(context, parameters["k.weight"], k_weight.grad(), what);
  }
}

}  // namespace
}  // namespace axonn
