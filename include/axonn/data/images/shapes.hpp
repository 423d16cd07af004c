#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace axonn {

enum class ShapeKind : uint8_t { disc, square, triangle, cross };
inline constexpr std::array<std::string_view, 4> kShapeKinds = {"disc", "square", "triangle", "cross"};

// A shape of one colour on a ground of another. Places and lengths are in pixels, colours from 0 to
// 1.
struct Shape {
  ShapeKind kind = ShapeKind::disc;
  double radius = 1;
  double x = 0;  // position of the centre
  double y = 0;
  std::array<double, 3> colour = {};
  std::array<double, 3> ground = {};
};

// Image `number` of make_shapes(size, ..., seed). The radius is 0.2 to 0.4 of the size, and the
// shape lies completely inside. Its colour channels are 0.4 to 1, those of the ground 0 to 0.3.
Shape draw_shape(int64_t size, uint64_t number, uint64_t seed);

// The part of each pixel that the shape covers, 0 to 1 with an edge of one pixel: size * size
// values, row by row.
std::vector<double> shape_cover(const Shape& shape, int64_t size);

}  // namespace axonn
