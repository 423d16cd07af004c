#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/overlap/step/arena.hpp"
#include "axonn/terms/forward_schedule.hpp"

namespace axonn {

// The difference max|a - b| / max|b| over one whole stored tensor; the maximum over all steps.
struct Difference {
  std::string what;  // "loss", "gradient norm", "gradient h.0.attn.qkv.weight", "weight wte.weight"
  double relative = 0;
  double tolerance = 0;  // infinite where docs/architecture.md has none
  bool passes() const { return relative <= tolerance; }
};

// How a network on a grid differs from the same network on one rank.
struct Verification {
  std::vector<Difference> differences;  // the same on every rank
  LinearCounts linear_products{};       // sums in the last step, on this rank
  bool passes() const;
  double worst(std::string_view kind) const;  // largest difference whose `what` starts with it
  std::string table() const;                  // one line per difference, and whether all pass
};

// docs/architecture.md, "What the same means".
struct Tolerances {
  double loss = 0, gradient = 0;
};
Tolerances tolerances(at::ScalarType dtype);  // fp64; any other type counts as fp32

// Maximum of |a - b| and of |b| over what this rank holds of one tensor.
struct Gap {
  double difference = 0;  // infinite if some is NaN
  double size = 0;
  void add(const at::Tensor& mine, const at::Tensor& expected);
};

// max|a - b| / max|b| over all ranks, for all tensors at once. A tensor whose max|b| is below
// `least` of the largest one is measured by that. Collective.
std::vector<double> relative(Communicator& everyone, const std::vector<Gap>& gaps, double least = 0);
// The largest difference of two lists of numbers, each relative to the expected one.
double relative(const std::vector<double>& mine, const std::vector<double>& expected);

// The elements of a whole tensor (flat) that a rank stores. Padding is zero.
at::Tensor stored_part(const at::Tensor& whole, const ArenaSlot& slot, const GridShape& shape, const Coordinate& at);

}  // namespace axonn
