#include "axonn/grid/grid.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

template <typename Position>
auto& entry(Position& position, Axis axis) {
  switch (axis) {
    case Axis::x:
      return position.x;
    case Axis::y:
      return position.y;
    case Axis::z:
      return position.z;
    case Axis::data:
      return position.data;
  }
  throw InternalError("grid.coordinate", detail::concatenate("no axis ", static_cast<int>(axis)));
}

void check_order(const AxisOrder& order) {
  const AxisSet seen = {order[0], order[1], order[2], order[3]};
  AXONN_CHECK(seen == AxisSet::all(), "grid.grid", "an axis order names each of x, y, z and data once, got ",
              to_string(order[0]), " ", to_string(order[1]), " ", to_string(order[2]), " ", to_string(order[3]));
}

// Grid indices of the positions along `axes` that start at `first`. The first axis of `order` is
// innermost.
std::vector<int> indices_along(const GridShape& shape, const AxisOrder& order, AxisSet axes, int first) {
  std::vector<int> indices = {first};
  int stride = 1;
  for (const Axis axis : order) {
    if (axes.contains(axis)) {
      const size_t block = indices.size();
      for (int i = 1; i < shape[axis]; ++i)
        for (size_t k = 0; k < block; ++k) indices.push_back(indices[k] + i * stride);
    }
    stride *= shape[axis];
  }
  return indices;
}

// The part of `index` that belongs to `axes`. Its group starts at index minus this part.
int contribution(const GridShape& shape, const AxisOrder& order, AxisSet axes, int index) {
  int sum = 0, stride = 1;
  for (const Axis axis : order) {
    if (axes.contains(axis)) sum += index / stride % shape[axis] * stride;
    stride *= shape[axis];
  }
  return sum;
}

}  // namespace

int Coordinate::operator[](Axis axis) const { return entry(*this, axis); }
int& Coordinate::operator[](Axis axis) { return entry(*this, axis); }

std::string Coordinate::to_string() const { return detail::concatenate("x", x, " y", y, " z", z, " d", data); }

AxisOrder parse_axis_order(std::string_view text) {
  constexpr std::string_view kLetters = "xyzd";
  AxisOrder order = kDefaultOrder;
  AXONN_CHECK(std::ranges::is_permutation(text, kLetters), "grid.parse_axis_order",
              "an axis order is the letters x, y, z and d, each once, innermost first, such as xyzd, got '", text, "'");
  for (size_t i = 0; i < order.size(); ++i) order[i] = kAxes[kLetters.find(text[i])];
  return order;
}

std::string to_string(const AxisOrder& order) {
  std::string text;
  for (const Axis axis : order) text += to_string(axis)[0];
  return text;
}

Grid::Grid(GridShape shape, AxisOrder order, Placement placement)
    : shape_(shape), order_(order), rank_of_index_(std::move(placement)) {
  check_shape(shape_, shape_.ranks());
  check_order(order_);
  AXONN_CHECK(shape_.ranks() <= std::numeric_limits<int>::max(), "grid.grid", "grid ", shape_.to_string(),
              " has more ranks than can be counted");
  const auto count = static_cast<size_t>(ranks());
  if (rank_of_index_.empty()) {
    rank_of_index_.resize(count);
    std::iota(rank_of_index_.begin(), rank_of_index_.end(), 0);
  }
  AXONN_CHECK(rank_of_index_.size() == count, "grid.grid", "a placement on grid ", shape_.to_string(), " needs ", count,
              " ranks, got ", rank_of_index_.size());
  index_of_rank_.assign(count, -1);
  for (size_t i = 0; i < count; ++i) {
    const int rank = rank_of_index_[i];
    AXONN_CHECK(rank >= 0 && rank < ranks(), "grid.grid", "a placement holds ranks from 0 to ", ranks() - 1, ", got ",
                rank);
    int& index = index_of_rank_[static_cast<size_t>(rank)];
    AXONN_CHECK(index < 0, "grid.grid", "a placement holds every rank once, got rank ", rank, " at index ", index,
                " and at index ", i);
    index = static_cast<int>(i);
  }
}

Coordinate Grid::coordinate(int rank) const {
  AXONN_CHECK(rank >= 0 && rank < ranks(), "grid.coordinate", "grid ", shape_.to_string(), " has ranks 0 to ",
              ranks() - 1, ", got ", rank);
  int rest = index_of_rank_[static_cast<size_t>(rank)];
  Coordinate at;
  for (const Axis axis : order_) {
    at[axis] = rest % shape_[axis];
    rest /= shape_[axis];
  }
  return at;
}

int Grid::rank(const Coordinate& coordinate) const {
  int index = 0, stride = 1;
  for (const Axis axis : order_) {
    const int place = coordinate[axis];
    AXONN_CHECK(place >= 0 && place < shape_[axis], "grid.rank", "coordinate ", coordinate.to_string(),
                " is not on grid ", shape_.to_string());
    index += place * stride;
    stride *= shape_[axis];
  }
  return rank_of_index_[static_cast<size_t>(index)];
}

Group Grid::group(int rank, AxisSet axes) const {
  AXONN_CHECK(rank >= 0 && rank < ranks(), "grid.group", "grid ", shape_.to_string(), " has ranks 0 to ", ranks() - 1,
              ", got ", rank);
  const int index = index_of_rank_[static_cast<size_t>(rank)];
  Group group{.axes = axes,
              .ranks = indices_along(shape_, order_, axes, index - contribution(shape_, order_, axes, index))};
  group.index = static_cast<int>(std::ranges::find(group.ranks, index) - group.ranks.begin());
  for (int& member : group.ranks) member = rank_of_index_[static_cast<size_t>(member)];
  return group;
}

std::vector<Group> Grid::groups(AxisSet axes) const {
  std::vector<Group> all;
  all.reserve(static_cast<size_t>(shape_.ranks() / shape_.size(axes)));
  for (int index = 0; index < ranks(); ++index)
    if (contribution(shape_, order_, axes, index) == 0)
      all.push_back(group(rank_of_index_[static_cast<size_t>(index)], axes));
  return all;
}

}  // namespace axonn
