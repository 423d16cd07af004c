#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace axonn {

// The parallel axes of AxoNN's 4D algorithm (paper, section III). `axis` always means an axis of
// the grid, `dim` a dim of a tensor.
enum class Axis : uint8_t { x, y, z, data };
inline constexpr std::array kAxes = {Axis::x, Axis::y, Axis::z, Axis::data};
std::string_view to_string(Axis axis);  // "x" "y" "z" "data"

// Weights are sharded over X and Y: returns the other one of the two.
inline Axis other_tensor_axis(Axis axis) { return axis == Axis::x ? Axis::y : Axis::x; }

// A set of axes, e.g. {Axis::z, Axis::data}: the ranks that differ only in these axes form one
// group.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(Axis axis) : bits_(bit(axis)) {}  // NOLINT: an axis is a set of one
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) bits_ |= bit(axis);
  }
  static constexpr AxisSet all() { return {Axis::x, Axis::y, Axis::z, Axis::data}; }
  constexpr bool contains(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr uint8_t bits() const { return bits_; }
  constexpr AxisSet operator|(AxisSet other) const {
    AxisSet both;
    both.bits_ = bits_ | other.bits_;
    return both;
  }
  constexpr AxisSet without(AxisSet other) const {
    AxisSet rest;
    rest.bits_ = bits_ & static_cast<uint8_t>(~other.bits_);
    return rest;
  }
  constexpr bool operator==(const AxisSet&) const = default;
  std::string to_string() const;  // "z+data"; "none" when empty

 private:
  static constexpr uint8_t bit(Axis axis) { return static_cast<uint8_t>(1u << static_cast<unsigned>(axis)); }
  uint8_t bits_ = 0;
};

// Sizes of the axes. Text form everywhere: "2x1x2x1" (X x Y x Z x data).
struct GridShape {
  int x = 1;
  int y = 1;
  int z = 1;
  int data = 1;

  int operator[](Axis axis) const;
  int& operator[](Axis axis);
  int64_t ranks() const;             // x * y * z * data
  int64_t size(AxisSet axes) const;  // product over the set; 1 for the empty set
  std::string to_string() const;
  bool operator==(const GridShape&) const = default;
};

// "2x1x2x1"; with fewer numbers the rest are 1 ("2x2"). Anything else is a UserError that shows the
// form.
GridShape parse_grid_shape(std::string_view text);

// Throws UserError unless every axis is >= 1 and the product is `ranks`. The message lists the
// grids of `ranks` ("grid 2x2x2x1 needs 8 ranks, this job has 4. Grids of 4: 1x1x1x4, ..."), or the
// factors of `ranks` when there are more than 100 grids.
void check_shape(const GridShape& shape, int64_t ranks);

// Every shape with that many ranks, in lexicographic order of (x, y, z, data).
std::vector<GridShape> factorisations(int64_t ranks);

}  // namespace axonn
