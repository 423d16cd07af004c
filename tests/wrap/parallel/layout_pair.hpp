#pragma once

#include <functional>
#include <memory>

#include "wrap/parallel/member_networks.hpp"

// Shared by the tests of ShardOptions::check_layouts: two members, and what lies between them.
namespace axonn::test::layouts {

namespace nn = axonn::nn;
using at::Tensor;

// Something between two members, of which the first gives 24 features.
struct Pair : nn::Module {
  using Between = std::function<Tensor(Pair&, const Tensor&)>;
  explicit Pair(const KeepSplit& options = {})
      : up(20, 24), twin(20, 24), down(24 / options.parts, 8), other(24, 8), gate(20, 1) {
    register_module("up", up);
    register_module("twin", twin);
    register_module("down", down);
    register_module("other", other);
    register_module("gate", gate);
    scale = register_parameter("scale", torch::full({1}, 0.7));
    nn::keep_split(up, down, options);
    nn::keep_split(twin, down, options);
  }
  Tensor forward(const Tensor& x) {
    input = x;
    return down(between(*this, up(x)));
  }
  // With all parameters, so that each has a gradient.
  Tensor rest() {
    const Tensor split = twin(input).chunk(24 / down->options.in_features(), -1)[0];
    return (gate(input) * scale).sum() + other(input.new_ones({1, 24})).sum() + down(split).sum();
  }
  nn::Linear up, twin, down, other, gate;
  Tensor scale, input;
  Between between;
};

inline Context grid_over_x() {
  const int ranks = test_environment().ranks();
  return Context(test_environment(), {.x = ranks == 4 ? 2 : ranks, .data = ranks == 4 ? 2 : 1}, {.dtype = at::kDouble});
}

inline std::shared_ptr<Pair> make_pair_of(const KeepSplit& options) {
  torch::manual_seed(1);
  auto net = std::make_shared<Pair>(options);
  net->to(torch::kDouble);
  return net;
}

inline Tensor rows(int64_t first, int64_t count) {
  torch::manual_seed(3);
  return torch::randn({kRows, 20}, torch::kDouble).narrow(0, first, count);
}

}  // namespace axonn::test::layouts

#define ON_TWO_OR_FOUR_RANKS() \
  if (test_environment().ranks() != 2 && test_environment().ranks() != 4) GTEST_SKIP() << "on two and four ranks"
