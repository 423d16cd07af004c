#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/grid/grid_shape.hpp"

namespace axonn {

// A position on the grid; every entry is in [0, size of that axis).
struct Coordinate {
  int x = 0;
  int y = 0;
  int z = 0;
  int data = 0;

  int operator[](Axis axis) const;
  int& operator[](Axis axis);
  std::string to_string() const;  // "x0 y1 z0 d0"
  bool operator==(const Coordinate&) const = default;
};

// Innermost axis first: neighbours along order[0] have neighbouring grid indices.
using AxisOrder = std::array<Axis, 4>;
inline constexpr AxisOrder kDefaultOrder = {Axis::x, Axis::y, Axis::z, Axis::data};
AxisOrder parse_axis_order(std::string_view text);  // "xyzd"; each of the four letters once
std::string to_string(const AxisOrder& order);      // as parse_axis_order() takes it

// The rank at each grid index: placement[i] is a rank of those that the grid spans. Empty: index i
// is rank i. Any permutation is allowed, such as one from a P2 parallelism matrix.
using Placement = std::vector<int>;

// One group of ranks that communicate along a set of axes.
struct Group {
  AxisSet axes;
  std::vector<int> ranks;  // in grid index order along `axes`: entry i is the member with index i
  int index = 0;           // this rank's entry in `ranks`
  int size() const { return static_cast<int>(ranks.size()); }
};

// Only arithmetic on ranks: no communication, no torch. Cheap even for 4096 ranks. Immutable after
// construction.
class Grid {
 public:
  // Throws UserError when an axis is < 1, `order` repeats an axis, or `placement` is not a
  // permutation of 0 .. ranks-1.
  explicit Grid(GridShape shape, AxisOrder order = kDefaultOrder, Placement placement = {});

  const GridShape& shape() const { return shape_; }
  const AxisOrder& order() const { return order_; }
  int ranks() const { return static_cast<int>(shape_.ranks()); }

  Coordinate coordinate(int rank) const;
  int rank(const Coordinate& coordinate) const;

  // The ranks that share every coordinate outside `axes` with `rank`. Of these axes, the one that
  // is first in order() is innermost.
  Group group(int rank, AxisSet axes) const;

  // All groups of that set, each as its first member sees it (index 0). Together they partition the
  // ranks.
  std::vector<Group> groups(AxisSet axes) const;

 private:
  GridShape shape_;
  AxisOrder order_;
  Placement rank_of_index_;
  std::vector<int> index_of_rank_;
};

}  // namespace axonn
