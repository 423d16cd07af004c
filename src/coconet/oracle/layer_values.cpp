#include "coconet/oracle/layer_values.hpp"

#include <algorithm>
#include <array>

#include "axonn/coconet/oracle/oracle.hpp"

namespace axonn::coconet {
namespace {

// Adds a * b to a sum; the sum is missing if one of both is.
void add_product(double& sum, double a, double b) {
  sum = is_missing(sum) || is_missing(a) || is_missing(b) ? missing() : sum + a * b;
}

// An element by its index in every dim; missing outside.
double element(const RankValues& values, int rank, std::initializer_list<int64_t> indices) {
  int64_t place = 0;
  auto extent = values.extents.begin();
  for (const int64_t index : indices) {
    if (index >= *extent) return missing();
    place = place * *extent++ + index;
  }
  return values.of(rank)[place];
}

// The ranks that add the products of each index of the summed dim.
std::vector<int> adders(const LayerOperand& x, size_t x_dim, const LayerOperand& weight, size_t weight_dim,
                        const Cut& cut) {
  const int64_t extent = std::max(x.values.extents[x_dim], weight.values.extents[weight_dim]);
  const bool partial = x.distribution == Distribution::sliced(static_cast<int>(x_dim)) &&
                       weight.distribution == Distribution::sliced(static_cast<int>(weight_dim));
  return holders_of(partial ? Distribution::sliced(0) : Distribution::replicated(), {extent}, cut, x.values.ranks);
}

// result[row, n] = sum over k of x[row, k] * weight[k, n]
void compute_product(const LayerOperand& x, const LayerOperand& weight, const Cut& cut, ElementRange range,
                     RankValues& result) {
  const std::vector<int> adds = adders(x, x.values.extents.size() - 1, weight, 0, cut);
  const int64_t columns = result.extents.back();
  RankValues rows = x.values;
  rows.extents = {x.values.count / x.values.extents.back(), x.values.extents.back()};
  for (int rank = 0; rank < result.ranks; ++rank)
    for (int64_t i = range.begin; i < range.end; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < std::ssize(adds); ++k)
        if (holds(adds[static_cast<size_t>(k)], rank))
          add_product(sum, element(rows, rank, {i / columns, k}), element(weight.values, rank, {k, i % columns}));
      result.of(rank)[i] = sum;
    }
}

// One output of a convolution; places outside of the image are zero.
double convolved(const LayerOperand& x, const LayerOperand& weight, const std::vector<int>& adds, int rank,
                 const std::array<int64_t, 4>& out) {
  const Extents &image = x.values.extents, &kernel = weight.values.extents;
  const int64_t top = out[2] - (kernel[2] - 1) / 2, left = out[3] - (kernel[3] - 1) / 2;
  double sum = 0;
  for (int64_t channel = 0; channel < std::ssize(adds); ++channel) {
    if (!holds(adds[static_cast<size_t>(channel)], rank)) continue;
    for (int64_t k = 0; k < kernel[2]; ++k)
      for (int64_t l = 0; l < kernel[3]; ++l) {
        const int64_t row = top + k, column = left + l;
        if (row < 0 || row >= image[2] || column < 0 || column >= image[3]) continue;
        add_product(sum, element(x.values, rank, {out[0], channel, row, column}),
                    element(weight.values, rank, {out[1], channel, k, l}));
      }
  }
  return sum;
}

void compute_convolution(const LayerOperand& x, const LayerOperand& weight, const Cut& cut, ElementRange range,
                         RankValues& result) {
  const std::vector<int> adds = adders(x, 1, weight, 1, cut);
  const int64_t columns = result.extents[3], rows = result.extents[2], channels = result.extents[1];
  for (int rank = 0; rank < result.ranks; ++rank)
    for (int64_t i = range.begin; i < range.end; ++i) {
      const std::array<int64_t, 4> out = {i / (columns * rows * channels), i / (columns * rows) % channels,
                                          i / columns % rows, i % columns};
      result.of(rank)[i] = convolved(x, weight, adds, rank, out);
    }
}

}  // namespace

void compute_layer(Operation layer, const LayerOperand& x, const LayerOperand& weight, const Cut& cut,
                   ElementRange range, RankValues& result) {
  const size_t x_dims = x.values.extents.size(), weight_dims = weight.values.extents.size();
  if (layer == Operation::matmul && x_dims >= 2 && weight_dims == 2)
    compute_product(x, weight, cut, range, result);
  else if (layer == Operation::conv2d && x_dims == 4 && weight_dims == 4)
    compute_convolution(x, weight, cut, range, result);
}

}  // namespace axonn::coconet
