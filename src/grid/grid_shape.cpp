#include "axonn/grid/grid_shape.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/grid/divisors.hpp"

namespace axonn {
namespace {

constexpr size_t kMostGridsListed = 100;

template <typename Shape>
auto& entry(Shape& shape, Axis axis) {
  switch (axis) {
    case Axis::x:
      return shape.x;
    case Axis::y:
      return shape.y;
    case Axis::z:
      return shape.z;
    case Axis::data:
      return shape.data;
  }
  throw InternalError("grid.shape", detail::concatenate("no axis ", static_cast<int>(axis)));
}

int64_t saturating_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

std::string grids_sentence(int64_t ranks) {
  const auto grids = factorisations(ranks);
  if (grids.size() <= kMostGridsListed)
    return detail::concatenate("Grids of ", ranks, ": ",
                               join(grids, ", ", [](const GridShape& g) { return g.to_string(); }));
  return detail::concatenate("There are ", grids.size(), " grids of ", ranks, ", from ", grids.front().to_string(),
                             " to ", grids.back().to_string(), "; its factors: ", join(divisors(ranks), ", "));
}

}  // namespace

std::string_view to_string(Axis axis) {
  constexpr std::array<std::string_view, 4> kNames = {"x", "y", "z", "data"};
  return kNames.at(static_cast<size_t>(axis));
}

std::string AxisSet::to_string() const {
  std::string text;
  for (const Axis axis : kAxes)
    if (contains(axis)) text.append(text.empty() ? "" : "+").append(axonn::to_string(axis));
  return text.empty() ? "none" : text;
}

int GridShape::operator[](Axis axis) const { return entry(*this, axis); }
int& GridShape::operator[](Axis axis) { return entry(*this, axis); }

int64_t GridShape::ranks() const { return size(AxisSet::all()); }

int64_t GridShape::size(AxisSet axes) const {
  int64_t product = 1;
  for (const Axis axis : kAxes)
    if (axes.contains(axis)) product = saturating_product(product, (*this)[axis]);
  return product;
}

std::string GridShape::to_string() const { return detail::concatenate(x, "x", y, "x", z, "x", data); }

GridShape parse_grid_shape(std::string_view text) {
  const auto complain = [&](bool fine) {
    AXONN_CHECK(fine, "grid.parse_grid_shape",
                "a grid is written X x Y x Z x data with whole numbers from 1, such as 2x1x2x1, got '", text, "'");
  };
  GridShape shape;
  std::string_view rest = text;
  for (const Axis axis : kAxes) {
    int& size = shape[axis];
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    complain(error == std::errc() && size >= 1);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    if (rest.empty()) break;
    complain(rest.front() == 'x' && axis != Axis::data);
    rest.remove_prefix(1);
  }
  return shape;
}

void check_shape(const GridShape& shape, int64_t ranks) {
  for (const Axis axis : kAxes)
    AXONN_CHECK(shape[axis] >= 1, "grid.check_shape", "grid ", shape.to_string(), " has axis ", to_string(axis), " = ",
                shape[axis], ", every axis must be at least 1");
  AXONN_CHECK(shape.ranks() == ranks, "grid.check_shape", "grid ", shape.to_string(), " needs ", shape.ranks(),
              shape.ranks() == 1 ? " rank" : " ranks", ", this job has ", ranks, ". ", grids_sentence(ranks));
}

std::vector<GridShape> factorisations(int64_t ranks) {
  AXONN_CHECK(ranks >= 1 && ranks <= std::numeric_limits<int>::max(), "grid.factorisations",
              "the number of ranks must be from 1 to 2147483647, got ", ranks);
  const auto factors = divisors(ranks);
  std::vector<GridShape> shapes;
  const auto number = static_cast<int>(ranks);
  for (const int x : factors)
    for (const int y : factors)
      if (number / x % y == 0)
        for (const int z : factors)
          if (number / x / y % z == 0) shapes.push_back({.x = x, .y = y, .z = z, .data = number / x / y / z});
  return shapes;
}

}  // namespace axonn
