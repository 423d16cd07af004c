// ShardOptions::check_layouts: what a forward computes rightly with a split tensor has the same
// bits with the check, and no error.
#include <torch/csrc/autograd/custom_function.h>

#include "axonn/layers/activation_checkpoint.hpp"
#include "wrap/parallel/layout_pair.hpp"

namespace axonn {
namespace {

using namespace test;
using namespace test::layouts;

struct Doubled : torch::autograd::Function<Doubled> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

struct Right {
  std::string what;
  Pair::Between between;
};

// Loss and gradients in two micro-batches, and evaluation, with and without the check.
void expect_left_alone(const std::vector<Right>& all, const KeepSplit& options = {}) {
  const auto plain = make_pair_of(options);
  const auto run = [&](const Right& each, bool checks) {
    Context context = grid_over_x();
    const auto net = make_pair_of(options);
    const WrappedModule parameters = parallelize(context, *net, {.check_layouts = checks});
    net->between = each.between;
    auto step = context.begin_step({.micro_batches = 2});
    std::vector<Tensor> got;
    for (const int64_t first : {0, 6}) {
      got.push_back(net->forward(rows(first, 6)));
      (got.back().pow(2).sum() + net->rest()).backward();
    }
    step.finish();
    for (const Tensor& local : parameters.local()) got.push_back(local.grad());
    const at::NoGradGuard no_grad;
    const auto whole = parameters.gathered();
    got.push_back(net->forward(rows(2, 6)));
    return got;
  };
  for (const Right& each : all) {
    SCOPED_TRACE(each.what);
    const std::vector<Tensor> need = run(each, false), got = run(each, true);
    for (size_t i = 0; i < need.size(); ++i) EXPECT_TRUE(got[i].equal(need[i])) << i;
    plain->between = each.between;
    EXPECT_TRUE(got.back().allclose(plain->forward(rows(2, 6)), 1e-12, 1e-12));
  }
}

TEST(LayoutCheck, LeavesFeatureWiseWorkAlone) {
  ON_TWO_OR_FOUR_RANKS();
  expect_left_alone({
      {"activation", [](Pair&, const Tensor& h) { return torch::gelu(h); }},
      {"in place", [](Pair&, const Tensor& h) { return (h + 1).mul_(2).add_(0.1).relu_(); }},
      {"a view written",
       [](Pair&, const Tensor& h) {
         Tensor y = h * 2;
         y.narrow(0, 0, 3).mul_(3);
         y.slice(0, 4) = 0.5;
         return y * y;
       }},
      {"gated", [](Pair& net, const Tensor& h) { return torch::silu(h) * net.twin(net.input); }},
      {"sums", [](Pair& net, const Tensor& h) { return h + net.twin(net.input) - h.mean(0, true); }},
      {"constants",
       [](Pair&, const Tensor& h) {
         Tensor sum = torch::zeros({h.size(0), h.size(1)}, torch::kDouble);
         sum.add_(h);
         return sum * torch::full({h.size(1)}, 0.5, torch::kDouble) + torch::ones_like(h) +
                torch::arange(6).view({6, 1});
       }},
      {"memory without values",
       [](Pair&, const Tensor& h) {
         Tensor first = torch::empty_like(h), second = torch::empty({h.size(0), h.size(1)}, torch::kDouble);
         first.copy_(h);
         second.copy_(first);
         return second;
       }},
      {"where", [](Pair&, const Tensor& h) { return torch::where(h > 0, h, h.new_zeros({1})); }},
      {"a gate without a gradient", [](Pair& net, const Tensor& h) { return h * net.input.narrow(1, 0, 1); }},
      {"rows taken", [](Pair&, const Tensor& h) { return h.index_select(0, torch::arange(5, -1, -1)); }},
      {"indexed", [](Pair&, const Tensor& h) { return h.index({torch::arange(5, -1, -1), torch::indexing::Slice()}); }},
      {"sequence", [](Pair&, const Tensor& h) { return torch::stack(torch::relu(h).unbind(0)); }},
      {"dropout that drops nothing",
       [](Pair&, const Tensor& h) { return torch::dropout(torch::dropout(h, 0.5, false), 0, true); }},
      {"a softmax over rows", [](Pair&, const Tensor& h) { return torch::softmax(h, 0); }},
      {"detached", [](Pair&, const Tensor& h) { return h - 0.5 * h.detach(); }},
      {"a function of autograd", [](Pair&, const Tensor& h) { return Doubled::apply(h); }},
      {"a random number for all", [](Pair&, const Tensor& h) { return h * (torch::rand({1}) * 0 + 1); }},
  });
}

// Rows and features of this rank are as many, here and in heads, so that sizes tell little.
TEST(LayoutCheck, LeavesHeadsAlone) {
  ON_TWO_OR_FOUR_RANKS();
  expect_left_alone(
      {
          {"by head", [](Pair&, const Tensor& h) { return torch::softmax(h.view({6, -1, 4}), 2).flatten(1); }},
          {"local numbers",
           [](Pair&, const Tensor& h) {
             const Tensor heads = h.view({2, 3, h.size(1) / 4, 4}).transpose(1, 2);
             return torch::matmul(torch::softmax(torch::matmul(heads, heads.transpose(2, 3)), -1), heads)
                 .transpose(1, 2)
                 .reshape({6, h.size(1)});
           }},
          {"local numbers behind -1",
           [](Pair&, const Tensor& h) { return torch::softmax(h.view({-1, h.size(1) / 4, 4}), 2).flatten(1); }},
          {"local numbers in one row",
           [](Pair&, const Tensor& h) {
             return torch::softmax(h.narrow(0, 1, 1).view({1, h.size(1) / 4, 4}), 2).flatten(1);
           }},
          {"fused attention",
           [](Pair& net, const Tensor& h) {
             const auto by_head = [](const Tensor& x) { return x.view({2, 3, -1, 4}).transpose(1, 2); };
             const Tensor k = by_head(net.twin(net.input));
             return at::scaled_dot_product_attention(by_head(h), k, k, {}, 0.0, true)
                 .transpose(1, 2)
                 .flatten(2)
                 .view({6, -1});
           }},
          {"masked",
           [](Pair&, const Tensor& h) {
             const Tensor heads = h.view({2, 3, -1, 4}).transpose(1, 2);
             const Tensor mask = torch::ones({3, 3}, torch::kBool).triu(1);
             const Tensor scores = torch::matmul(heads, heads.transpose(2, 3)).masked_fill(mask, -INFINITY);
             return torch::matmul(torch::softmax(scores, -1), heads).transpose(1, 2).reshape({6, -1});
           }},
          {"einsum",
           [](Pair&, const Tensor& h) {
             const Tensor heads = h.view({2, 3, -1, 4});
             return torch::einsum("bihd,bjhd,bjhe->bihe", {heads, heads, heads}).reshape({6, -1});
           }},
      },
      {.heads = 6});
}

// A rank with one head has as many features as the head.
TEST(LayoutCheck, LeavesOneHeadAlone) {
  ON_TWO_OR_FOUR_RANKS();
  expect_left_alone(
      {
          {"local numbers",
           [](Pair&, const Tensor& h) { return torch::softmax(h.view({6, h.size(1) / 12, 12}), -1).flatten(1); }},
          {"rows and heads in one dim",
           [](Pair&, const Tensor& h) {
             const int64_t heads = h.size(1) / 12;
             const Tensor x = h.view({2, 3, heads, 12}).transpose(1, 2).reshape({2 * heads, 3, 12});
             return torch::bmm(torch::softmax(torch::bmm(x, x.transpose(1, 2)), -1), x)
                 .view({2, heads, 3, 12})
                 .transpose(1, 2)
                 .reshape({6, heads * 12});
           }},
      },
      {.heads = 2});
}

TEST(LayoutCheck, LeavesPartsAlone) {
  ON_TWO_OR_FOUR_RANKS();
  const auto product = [](const Tensor& q, const Tensor& k, const Tensor& v) { return torch::tanh(q * k) + v; };
  expect_left_alone(
      {
          {"chunk",
           [=](Pair&, const Tensor& h) {
             const auto p = h.chunk(3, -1);
             return product(p[0], p[1], p[2]);
           }},
          {"split",
           [=](Pair&, const Tensor& h) {
             const auto p = h.split(h.size(1) / 3, 1);
             return product(p[0], p[1], p[2]);
           }},
          {"split_with_sizes",
           [=](Pair&, const Tensor& h) {
             const int64_t n = h.size(1) / 3;
             const auto p = h.split_with_sizes({n, n, n}, 1);
             return product(p[0], p[1], p[2]);
           }},
          {"narrow",
           [=](Pair&, const Tensor& h) {
             const int64_t n = h.size(-1) / 3;
             return product(h.narrow(-1, 0, n), h.narrow(-1, n, n), h.slice(-1, 2 * n));
           }},
          {"view and unbind",
           [=](Pair&, const Tensor& h) {
             const auto p = h.view({6, 3, -1}).unbind(1);
             return product(p[0], p[1], p[2]);
           }},
      },
      {.heads = 2, .parts = 3});
}

TEST(LayoutCheck, LeavesNetworksAlone) {
  const ShardOptions checked{.check_layouts = true};
  expect_verified<members::Transformer>(checked);
  expect_verified<members::SplitStream>(checked);
  expect_verified<members::Images>(checked);
  expect_verified<members::Chain>(checked);
}

// ... and sees faults through their rounding.
TEST(LayoutCheck, LeavesNarrowTypesAlone) {
  ON_TWO_OR_FOUR_RANKS();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(type);
    Context context(test_environment(), {.x = test_environment().ranks()}, {.dtype = type});
    torch::manual_seed(1);
    const auto net = std::make_shared<Pair>();
    const WrappedModule parameters = parallelize(context, *net, {.check_layouts = true});
    auto step = context.begin_step();
    net->between = [](Pair& n, const Tensor& h) {
      const Tensor gated = torch::silu(h) * n.twin(n.input), heads = gated.view({3, 2, -1, 2}).transpose(1, 2);
      return at::scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape({6, -1});
    };
    EXPECT_EQ(net->forward(rows(0, 6).to(type)).size(1), 8);
    for (const Pair::Between& fault : {Pair::Between([](Pair&, const Tensor& h) { return torch::softmax(h, -1); }),
                                       Pair::Between([](Pair&, const Tensor& h) { return h - h.mean(-1, true); })}) {
      net->between = fault;
      EXPECT_THROW(net->forward(rows(0, 6).to(type)), UserError);
    }
    step.abandon();
  }
}

// Backward runs it again, and does not check it again.
TEST(LayoutCheck, LeavesRecomputationAlone) {
  ON_TWO_OR_FOUR_RANKS();
  const auto run = [](bool checks) {
    Context context = grid_over_x();
    const auto net = make_pair_of({});
    const WrappedModule parameters = parallelize(context, *net, {.check_layouts = checks});
    net->between = [](Pair&, const Tensor& h) { return torch::gelu(h); };
    auto step = context.begin_step();
    const Value input{rows(0, 6).requires_grad_(), 20, Layout::replicated()};
    const auto block = [&](const std::vector<Value>& inputs) {
      return Value{net->forward(inputs[0].tensor), 8, Layout::replicated()};
    };
    const Tensor y = activation_checkpoint(context, block, {input}).tensor;
    y.pow(2).sum().backward();
    step.abandon();
    return std::pair{y.detach(), input.tensor.grad()};
  };
  const auto [need, need_gradient] = run(false);
  const auto [got, gradient] = run(true);
  EXPECT_TRUE(got.equal(need));
  EXPECT_TRUE(gradient.equal(need_gradient));
}

}  // namespace
}  // namespace axonn
