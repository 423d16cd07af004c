#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace axonn {

// One level of the hardware, e.g. {"node", 256}: 256 nodes in what is above them.
struct HardwareLevel {
  std::string name;
  int size = 1;
  bool operator==(const HardwareLevel&) const = default;
};

// Outermost level first: {{"node", 4}, {"gpu", 16}} is 64 devices. Device d has at each level one digit of d, the outermost the most
// significant.
using Hierarchy = std::vector<HardwareLevel>;

// UserError unless there is a level, every size is at least 1, and the product is at most 2147483647.
void check_hierarchy(const Hierarchy& hierarchy);
int num_devices(const Hierarchy& hierarchy);
std::vector<int> sizes(const Hierarchy& hierarchy);

// Where parallelism axes lie on the hardware (P2, section 3.1): factor(i, j) says how many ways axis i is split at level j. The product of
// a column is the size of that level, the product of a row the size of that axis.
//
// Axes (rows) and levels (columns) both come outermost first: within a level the last axis varies fastest, as in the paper's column-based
// hierarchy, and a coordinate along an axis has one digit a level, the outermost the most significant.
struct ParallelismMatrix {
  int axes = 0;
  int levels = 0;
  std::vector<int> factors;  // row by row

  int factor(int axis, int level) const { return factors[static_cast<size_t>(axis * levels + level)]; }
  int& factor(int axis, int level) { return factors[static_cast<size_t>(axis * levels + level)]; }

  int axis_size(int axis) const;    // product of a row
  int level_size(int level) const;  // product of a column
  int devices() const;

  // The device at that position on the axes, one entry an axis.
  int device(std::span<const int> coordinates) const;

  // The device of every position, in row-major order of the coordinates (the last axis fastest). With rows data, z, y, x this is a
  // Placement for a Grid of the order x, y, z, data.
  std::vector<int> devices_of_positions() const;

  std::string to_string() const;  // "[[2 1] [1 16]]", the paper's form
  bool operator==(const ParallelismMatrix&) const = default;
};

// Reads "[[2 1] [1 16]]" or, easier in a shell, "2x1,1x16". UserError on anything else, and on factors below 1.
ParallelismMatrix parse_parallelism_matrix(std::string_view text);

// UserError unless column products are `levels` and row products are `axes`; says which row or column is wrong.
void check_parallelism_matrix(const ParallelismMatrix& matrix, std::span<const int> levels, std::span<const int> axes);

// Calls `visit` with every matrix of these levels and axes, in lexicographic order of the columns, outermost level first. The matrix is one
// object that is filled again for each call: nothing is allocated per matrix; copy it to keep it. UserError when the products of levels and
// axes differ, or a size is below 1.
using MatrixVisitor = std::function<void(const ParallelismMatrix&)>;
void visit_parallelism_matrices(std::span<const int> levels, std::span<const int> axes, const MatrixVisitor& visit);

// The same for axes of any size: every placement of every grid with that many axes on these levels.
void visit_all_parallelism_matrices(std::span<const int> levels, int num_axes, const MatrixVisitor& visit);

// All of the first kind as a list.
std::vector<ParallelismMatrix> parallelism_matrices(std::span<const int> levels, std::span<const int> axes);

}  // namespace axonn
