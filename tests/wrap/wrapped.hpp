#pragma once

#include <map>
#include <memory>
#include <string>
#include <typeinfo>

#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>

#include "axonn/wrap/shard.hpp"
#include "support/rank_test.hpp"
#include "wrap/networks.hpp"

// A network twice: plain in one process with all rows, and wrapped on a grid.
namespace axonn::test {

// The same on every rank. Buffers that training changes are frozen. No bias begins with zeros: a
// key's has a gradient that is zero but for rounding, which AdamW magnifies, and nothing to measure
// the result by.
template <typename Net>
std::shared_ptr<Net> network(int64_t seed = 1) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  auto net = std::make_shared<Net>();
  net->to(torch::kDouble);
  {
    const at::NoGradGuard no_grad;
    for (at::Tensor& each : net->parameters())
      if (each.count_nonzero().template item<int64_t>() == 0) each.uniform_(-0.5, 0.5);
  }
  for (const auto& module : net->modules())
    if (typeid(*module) == typeid(torch::nn::BatchNorm2dImpl)) module->eval();
  return net;
}

// A randomly weighted sum over rows [first, first + rows) of step `step`.
template <typename Net>
at::Tensor loss(Net& net, int64_t step, int64_t first, int64_t rows) {
  torch::manual_seed(static_cast<uint64_t>(100 + step));
  const at::Tensor input = Net::input();
  const at::Tensor output = net.forward(input.narrow(0, first, rows));
  std::vector<int64_t> shape = output.sizes().vec();
  shape[0] = kRows;
  return (output * torch::randn(shape, torch::kDouble).narrow(0, first, rows)).sum();
}

template <typename Net>
at::Tensor my_loss(Net& net, const Context& context, int64_t step) {
  const RowShare share = context.row_share();
  const int64_t rows = kRows / share.groups;
  return loss(net, step, share.mine * rows, rows);
}

using Tensors = std::map<std::string, at::Tensor>;

inline torch::optim::AdamWOptions adamw() { return torch::optim::AdamWOptions(1e-4).weight_decay(0.1); }

// The result of `take` for each trained parameter, by its first name.
template <typename Take>
Tensors of_plain(torch::nn::Module& net, Take take) {
  Tensors tensors;
  std::vector<at::Tensor> seen;
  for (const auto& each : net.named_parameters()) {
    if (!each.value().requires_grad() ||
        std::ranges::any_of(seen, [&](const at::Tensor& before) { return before.is_same(each.value()); }))
      continue;
    seen.push_back(each.value());
    tensors[each.key()] = take(each.value()).detach().clone();
  }
  return tensors;
}

// This rank's local tensors, or their gradients, beside the plain ones.
inline void expect_local(const WrappedModule& wrapped, const Tensors& plain, bool gradients, double bound,
                         const std::string& what) {
  ASSERT_EQ(wrapped.names().size(), plain.size()) << what;
  for (size_t i = 0; i < wrapped.names().size(); ++i) {
    const std::string& name = wrapped.names()[i];
    ASSERT_TRUE(plain.contains(name)) << what << ' ' << name;
    const Range range = wrapped.parameters().list()[i].slot().range;
    const at::Tensor whole = plain.at(name).flatten(), need = whole.narrow(0, range.begin, range.size());
    const at::Tensor got = gradients ? wrapped.local()[i].grad() : wrapped.local()[i].detach();
    ASSERT_TRUE(got.defined()) << what << ' ' << name;
    if (need.numel() == 0) continue;
    // Some gradients are zero in exact arithmetic (a key's bias).
    const double scale = std::max(whole.abs().max().item<double>(), 1e-3);
    EXPECT_LE((got - need).abs().max().item<double>() / scale, bound) << what << ' ' << name;
  }
}

inline bool readable(const at::Tensor& parameter) {
  try {
    return parameter.detach().sum().defined();
  } catch (const c10::Error&) {
    return false;
  }
}

inline std::vector<GridShape> wrapped_grids() {
  switch (test_environment().ranks()) {
    case 1:
      return {{.data = 1}};
    case 2:
      return {{.z = 2}, {.data = 2}};
    case 3:
      return {{.z = 3}};
    default:
      return {{.z = 2, .data = 2}, {.z = 4}, {.data = 4}};
  }
}

}  // namespace axonn::test
