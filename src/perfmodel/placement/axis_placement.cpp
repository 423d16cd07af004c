#include "axonn/perfmodel/placement/axis_placement.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace axonn {
namespace {

// Rows of a matrix are outermost first: the order X Y Z data of a Grid, reversed.
constexpr std::array kRows = {Axis::data, Axis::z, Axis::y, Axis::x};

AxisPlacement placement_of(const ParallelismMatrix& matrix) {
  AxisPlacement placement;
  for (int level = matrix.levels - 1; level >= 0; --level) {
    GridShape& column = placement.levels.emplace_back();
    for (size_t row = 0; row < kRows.size(); ++row) column[kRows[row]] = matrix.factor(static_cast<int>(row), level);
  }
  return placement;
}

void visit_matrices(const GridShape& shape, std::span<const int64_t> level_sizes, const MatrixVisitor& visitor) {
  const std::vector<int> levels(level_sizes.rbegin(), level_sizes.rend());
  const std::array axes = {shape.data, shape.z, shape.y, shape.x};
  visit_parallelism_matrices(levels, axes, visitor);
}

}  // namespace

GridShape AxisPlacement::shape() const {
  GridShape product;
  for (const GridShape& level : levels)
    for (const Axis axis : kAxes) product[axis] *= level[axis];
  return product;
}

std::string AxisPlacement::to_string() const {
  std::string text;
  for (const GridShape& level : levels) {
    if (!text.empty()) text += " | ";
    std::string axes;
    for (const Axis axis : kAxes)
      if (level[axis] > 1)
        axes.append(axes.empty() ? "" : " ").append(axonn::to_string(axis)).append(std::to_string(level[axis]));
    text += axes.empty() ? "-" : axes;
  }
  return text;
}

ParallelismMatrix AxisPlacement::matrix() const {
  ParallelismMatrix matrix = {.axes = static_cast<int>(kRows.size()), .levels = static_cast<int>(levels.size())};
  for (const Axis axis : kRows)
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) matrix.factors.push_back((*level)[axis]);
  return matrix;
}

std::vector<AxisPlacement> placements(const GridShape& shape, std::span<const int64_t> level_sizes) {
  std::vector<AxisPlacement> found;
  visit_matrices(shape, level_sizes, [&](const ParallelismMatrix& matrix) { found.push_back(placement_of(matrix)); });
  return found;
}

int64_t count_placements(const GridShape& shape, std::span<const int64_t> level_sizes) {
  int64_t count = 0;
  visit_matrices(shape, level_sizes, [&](const ParallelismMatrix&) { ++count; });
  return count;
}

std::optional<AxisPlacement> placement_of_order(const GridShape& shape, const AxisOrder& order,
                                                std::span<const int64_t> level_sizes) {
  AxisPlacement placement;
  GridShape left = shape;
  for (int64_t size : level_sizes) {
    GridShape column;
    for (const Axis axis : order) {
      const int64_t here = std::gcd(int64_t{left[axis]}, size);
      if (here != left[axis] && here != size) return std::nullopt;
      column[axis] = static_cast<int>(here);
      left[axis] /= column[axis];
      size /= here;
      if (left[axis] > 1 && size > 1) return std::nullopt;
    }
    if (size != 1) return std::nullopt;
    placement.levels.push_back(column);
  }
  return placement;
}

std::optional<AxisOrder> order_of_placement(const AxisPlacement& placement) {
  AxisOrder order = kDefaultOrder;
  std::vector<int64_t> sizes;
  for (const GridShape& level : placement.levels) sizes.push_back(level.ranks());
  const GridShape shape = placement.shape();
  do {
    if (placement_of_order(shape, order, sizes) != placement) continue;
    std::ranges::stable_partition(order, [&](Axis axis) { return shape[axis] > 1; });
    return order;
  } while (std::ranges::next_permutation(order).found);
  return std::nullopt;
}

Placement rank_map(const AxisPlacement& placement) { return placement.matrix().devices_of_positions(); }

}  // namespace axonn
