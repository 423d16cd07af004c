#include "axonn/perfmodel/axis_placement.hpp"

#include <algorithm>
#include <numeric>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// Columns of product `size` that divide `left` axis by axis.
template <typename Visit>
void for_each_column(const GridShape& left, int64_t size, Visit&& visit) {
  for (int x = 1; x <= left.x && x <= size; ++x) {
    if (left.x % x != 0 || size % x != 0) continue;
    for (int y = 1; y <= left.y && y <= size / x; ++y) {
      if (left.y % y != 0 || size / x % y != 0) continue;
      for (int z = 1; z <= left.z && z <= size / x / y; ++z) {
        if (left.z % z != 0 || size / x / y % z != 0) continue;
        const int64_t data = size / x / y / z;
        if (data <= left.data && left.data % data == 0) visit(GridShape{.x = x, .y = y, .z = z, .data = static_cast<int>(data)});
      }
    }
  }
}

GridShape quotient(const GridShape& a, const GridShape& b) {
  return {.x = a.x / b.x, .y = a.y / b.y, .z = a.z / b.z, .data = a.data / b.data};
}

void extend(const GridShape& left, std::span<const int64_t> sizes, std::vector<GridShape>& levels, std::vector<AxisPlacement>& found) {
  if (sizes.size() == 1) {  // what is left is the outermost column
    levels.push_back(left);
    found.push_back({levels});
    levels.pop_back();
    return;
  }
  for_each_column(left, sizes.front(), [&](const GridShape& column) {
    levels.push_back(column);
    extend(quotient(left, column), sizes.subspan(1), levels, found);
    levels.pop_back();
  });
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
      if (level[axis] > 1) axes.append(axes.empty() ? "" : " ").append(axonn::to_string(axis)).append(std::to_string(level[axis]));
    text += axes.empty() ? "-" : axes;
  }
  return text;
}

std::vector<AxisPlacement> placements(const GridShape& shape, std::span<const int64_t> level_sizes) {
  const int64_t product = std::accumulate(level_sizes.begin(), level_sizes.end(), int64_t{1}, std::multiplies<>());
  AXONN_CHECK(!level_sizes.empty() && product == shape.ranks(), "perfmodel.placements", "levels of ", product, " GPUs do not hold grid ",
              shape.to_string());
  std::vector<GridShape> levels;
  std::vector<AxisPlacement> found;
  extend(shape, level_sizes, levels, found);
  return found;
}

std::optional<AxisPlacement> placement_of_order(const GridShape& shape, const AxisOrder& order, std::span<const int64_t> level_sizes) {
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
  do {
    if (placement_of_order(placement.shape(), order, sizes) == placement) return order;
  } while (std::ranges::next_permutation(order).found);
  return std::nullopt;
}

Placement rank_map(const AxisPlacement& placement) {
  const GridShape shape = placement.shape();
  Placement ranks(static_cast<size_t>(shape.ranks()));
  for (size_t index = 0; index < ranks.size(); ++index) {
    auto rest = static_cast<int>(index);
    GridShape at;
    for (const Axis axis : kAxes) {
      at[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    int rank = 0, stride = 1;
    for (const GridShape& level : placement.levels) {
      for (const Axis axis : kAxes) {
        rank += at[axis] % level[axis] * stride;
        at[axis] /= level[axis];
        stride *= level[axis];
      }
    }
    ranks[index] = rank;
  }
  return ranks;
}

}  // namespace axonn
