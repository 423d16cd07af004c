#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace axonn {

// One level of the hardware, such as {"node", 256}: 256 nodes in each unit of the level above.
struct HardwareLevel {
  std::string name;
  int size = 1;
  bool operator==(const HardwareLevel&) const = default;
};

// Outermost level first: {{"node", 4}, {"gpu", 16}} is 64 devices. A device's number has one digit
// per level; the outermost level's digit is the most significant.
using Hierarchy = std::vector<HardwareLevel>;

// UserError unless there is a level, all sizes are at least 1 and the product is at most 2^31 - 1.
int num_devices(const Hierarchy& hierarchy);
std::vector<int> sizes(const Hierarchy& hierarchy);

// How parallelism axes are placed on the hardware (P2, section 3.1): axis i is split factor(i, j)
// ways at level j. The product of a column is the size of that level; the product of a row is the
// size of that axis.
//
// Axes (rows) and levels (columns) are both outermost first. Within a level the last axis varies
// fastest, as in the paper's column-based hierarchy. A coordinate along an axis has one digit per
// level; the outermost level's digit is the most significant.
struct ParallelismMatrix {
  int axes = 0;
  int levels = 0;
  std::vector<int> factors;  // row by row

  int factor(int axis, int level) const { return factors[static_cast<size_t>(axis * levels + level)]; }
  int& factor(int axis, int level) { return factors[static_cast<size_t>(axis * levels + level)]; }

  int axis_size(int axis) const;    // product of a row
  int level_size(int level) const;  // product of a column
  int devices() const;

  // The device at a position, given by one coordinate per axis.
  int device(std::span<const int> coordinates) const;

  // The device of every position, in row-major order of the coordinates (last axis fastest). With
  // the rows data, z, y, x this is a Placement for a Grid of the order x, y, z, data.
  std::vector<int> devices_of_positions() const;

  std::string to_string() const;  // "[[2 1] [1 16]]", the paper's form
  bool operator==(const ParallelismMatrix&) const = default;
};

// Reads "[[2 1] [1 16]]" or, easier in a shell, "2x1,1x16". UserError for anything else, and for
// factors below 1.
ParallelismMatrix parse_parallelism_matrix(std::string_view text);

// Calls `visit` with every matrix of these levels and axes, in lexicographic order of the columns,
// outermost level first. All calls share one matrix object, so nothing is allocated per matrix;
// copy it to keep it. UserError when the products of levels and axes differ, or when a size is
// below 1.
using MatrixVisitor = std::function<void(const ParallelismMatrix&)>;
void visit_parallelism_matrices(std::span<const int> levels, std::span<const int> axes, const MatrixVisitor& visit);

}  // namespace axonn
