#pragma once

#include <algorithm>
#include <random>

#include "checkpoint/checkpoint_ranks.hpp"

// Grids and tensors of any kind.
namespace axonn::test {

inline Grid random_grid(std::mt19937& random) {
  const auto below = [&](size_t end) { return random() % end; };
  AxisOrder order = kDefaultOrder;
  std::ranges::shuffle(order, random);
  const auto shapes = factorisations(static_cast<int64_t>(1 + below(16)));
  return Grid(shapes[below(shapes.size())], order);
}

// Any spec: one to three dims of segments, split, padded or whole.
inline Tensor random_tensor(std::mt19937& random, size_t number) {
  const auto below = [&](size_t end) { return static_cast<int64_t>(random() % end); };
  constexpr std::array kTypes = {at::kFloat, at::kDouble, at::kBFloat16, at::kByte};
  Tensor tensor{.name = "kind/" + std::to_string(number), .spec = {}, .dtype = kTypes[random() % kTypes.size()]};
  std::vector<std::optional<Axis>> axes = {Axis::x, Axis::y, std::nullopt, std::nullopt};
  std::ranges::shuffle(axes, random);
  for (int64_t dim = 0, dims = 1 + below(3); dim < dims; ++dim) {
    Dim made;
    const auto axis = axes[static_cast<size_t>(dim)];
    for (int64_t segment = 0, segments = 1 + below(3); segment < segments; ++segment)
      made.segments.push_back({.size = 1 + below(12), .axis = axis, .tile = axis ? below(4) : 0});
    tensor.spec.dims.push_back(made);
  }
  tensor.spec.over_z = below(2) == 0;
  return tensor;
}

// Cuts it over some of the axes that replicate it, or over none.
inline void cut_at_random(std::mt19937& random, Tensor& tensor) {
  constexpr std::array<int64_t, 5> kBlocks = {1, 3, 8, 16, 64};
  tensor.cut = {};
  for (const Axis axis : kAxes)
    if (tensor.spec.replicated_axes().contains(axis) && random() % 2 == 0) tensor.cut = tensor.cut | axis;
  tensor.block = kBlocks[random() % kBlocks.size()];
  tensor.places = static_cast<unsigned>(random());
}

inline std::vector<Tensor> random_tensors(std::mt19937& random) {
  std::vector<Tensor> all;
  for (size_t number = 0; number < 5; ++number) all.push_back(random_tensor(random, number));
  for (Tensor& tensor : all) cut_at_random(random, tensor);
  return all;
}

}  // namespace axonn::test
