#include "axonn/perfmodel/placement/parallelism_matrix.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <limits>

#include "axonn/core/error.hpp"
#include "axonn/grid/divisors.hpp"

namespace axonn {
namespace {

std::string text_of(std::span<const int> numbers) {
  std::string text = "[";
  for (const int number : numbers) text.append(text.size() > 1 ? " " : "").append(std::to_string(number));
  return text + "]";
}

int checked_product(std::span<const int> numbers, std::string_view what) {
  int64_t product = 1;
  for (const int number : numbers) {
    AXONN_CHECK(number >= 1, "perfmodel.parallelism_matrix", "sizes of ", what, " must be at least 1, got ",
                text_of(numbers));
    product *= number;
    AXONN_CHECK(product <= std::numeric_limits<int>::max(), "perfmodel.parallelism_matrix", "the product of the ", what,
                " ", text_of(numbers), " is more than 2147483647 devices");
  }
  return static_cast<int>(product);
}

// Fills a matrix column by column, each column from the first axis to the last. The rest of a row's
// size bounds its factors.
class Enumeration {
 public:
  Enumeration(std::span<const int> levels, std::span<const int> axes, const MatrixVisitor& visit)
      : left_of_rows_(axes.begin(), axes.end()), visit_(visit) {
    matrix_ = {.axes = static_cast<int>(axes.size()), .levels = static_cast<int>(levels.size())};
    matrix_.factors.assign(levels.size() * axes.size(), 1);
    for (const int size : levels) divisors_.push_back(divisors(size));
  }

  void run() { column(0); }

 private:
  void column(int level) {
    if (level < matrix_.levels)
      cell(0, level, divisors_[static_cast<size_t>(level)].back());
    else if (std::ranges::all_of(left_of_rows_, [](int left) { return left == 1; }))
      visit_(matrix_);
  }

  void cell(int axis, int level, int left_of_column) {
    if (axis == matrix_.axes - 1) {
      if (left_of_column <= most(axis) && fits(axis, left_of_column)) place(axis, level, left_of_column, 1);
      return;
    }
    for (const int factor : divisors_[static_cast<size_t>(level)]) {
      if (factor > std::min(left_of_column, most(axis))) break;
      if (left_of_column % factor == 0 && fits(axis, factor)) place(axis, level, factor, left_of_column / factor);
    }
  }

  void place(int axis, int level, int factor, int left_of_column) {
    matrix_.factor(axis, level) = factor;
    left_of_rows_[static_cast<size_t>(axis)] /= factor;
    if (axis == matrix_.axes - 1)
      column(level + 1);
    else
      cell(axis + 1, level, left_of_column);
    left_of_rows_[static_cast<size_t>(axis)] *= factor;
  }

  int most(int axis) const { return left_of_rows_[static_cast<size_t>(axis)]; }
  bool fits(int axis, int factor) const { return most(axis) % factor == 0; }

  ParallelismMatrix matrix_;
  std::vector<int> left_of_rows_;
  std::vector<std::vector<int>> divisors_;
  const MatrixVisitor& visit_;
};

}  // namespace

int num_devices(const Hierarchy& hierarchy) {
  AXONN_CHECK(!hierarchy.empty(), "perfmodel.hierarchy",
              "a hierarchy has at least one level, such as 4 nodes of 8 devices");
  return checked_product(sizes(hierarchy), "levels");
}

std::vector<int> sizes(const Hierarchy& hierarchy) {
  std::vector<int> all;
  for (const HardwareLevel& level : hierarchy) all.push_back(level.size);
  return all;
}

int ParallelismMatrix::axis_size(int axis) const {
  int product = 1;
  for (int level = 0; level < levels; ++level) product *= factor(axis, level);
  return product;
}

int ParallelismMatrix::level_size(int level) const {
  int product = 1;
  for (int axis = 0; axis < axes; ++axis) product *= factor(axis, level);
  return product;
}

int ParallelismMatrix::devices() const {
  int product = 1;
  for (const int factor : factors) product *= factor;
  return product;
}

int ParallelismMatrix::device(std::span<const int> coordinates) const {
  AXONN_CHECK(static_cast<int>(coordinates.size()) == axes, "perfmodel.parallelism_matrix",
              "a position has one coordinate an axis, got ", text_of(coordinates), " for ", to_string());
  int found = 0, stride = 1;
  std::vector<int> left(coordinates.begin(), coordinates.end());
  for (int level = levels - 1; level >= 0; --level)
    for (int axis = axes - 1; axis >= 0; --axis) {
      int& rest = left[static_cast<size_t>(axis)];
      found += rest % factor(axis, level) * stride;
      rest /= factor(axis, level);
      stride *= factor(axis, level);
    }
  AXONN_CHECK(std::ranges::all_of(left, [](int rest) { return rest == 0; }) &&
                  std::ranges::all_of(coordinates, [](int c) { return c >= 0; }),
              "perfmodel.parallelism_matrix", "position ", text_of(coordinates), " is not on the axes of ",
              to_string());
  return found;
}

std::vector<int> ParallelismMatrix::devices_of_positions() const {
  std::vector<int> found = {0};
  std::vector<int> stride(factors.size());  // stride of each factor's digit in the device's number
  int product = 1;
  for (int level = levels - 1; level >= 0; --level)
    for (int axis = axes - 1; axis >= 0; --axis) {
      stride[static_cast<size_t>(axis * levels + level)] = product;
      product *= factor(axis, level);
    }
  found.reserve(static_cast<size_t>(product));
  std::vector<int> next;
  next.reserve(static_cast<size_t>(product));
  for (size_t digit = 0; digit < factors.size(); ++digit) {
    next.clear();
    for (const int base : found)
      for (int value = 0; value < factors[digit]; ++value) next.push_back(base + value * stride[digit]);
    found.swap(next);
  }
  return found;
}

std::string ParallelismMatrix::to_string() const {
  std::string text = "[";
  for (int axis = 0; axis < axes; ++axis) {
    const auto row =
        std::span<const int>(factors).subspan(static_cast<size_t>(axis * levels), static_cast<size_t>(levels));
    text.append(axis > 0 ? " " : "").append(text_of(row));
  }
  return text + "]";
}

ParallelismMatrix parse_parallelism_matrix(std::string_view text) {
  const auto complain = [&](bool fine) {
    AXONN_CHECK(fine, "perfmodel.parallelism_matrix",
                "a parallelism matrix is one row per axis with one factor from 1 per level, such as [[2 1] [1 16]] or "
                "2x1,1x16, got '",
                text, "'");
  };
  ParallelismMatrix matrix;
  int in_row = 0;
  const auto end_row = [&] {
    if (in_row == 0) return;
    complain(matrix.axes == 0 || in_row == matrix.levels);
    matrix.levels = in_row;
    ++matrix.axes;
    in_row = 0;
  };
  const auto digit = [&](const char* at) {
    return at >= text.data() && at < text.data() + text.size() && std::isdigit(static_cast<unsigned char>(*at)) != 0;
  };
  int depth = 0;
  for (const char* at = text.data(); at != text.data() + text.size();) {
    if (digit(at)) {
      int factor = 0;
      const auto [end, error] = std::from_chars(at, text.data() + text.size(), factor);
      complain(error == std::errc() && factor >= 1);
      matrix.factors.push_back(factor);
      ++in_row;
      at = end;
      continue;
    }
    complain(*at == '[' || *at == ']' || *at == ' ' || ((*at == 'x' || *at == ',') && digit(at - 1) && digit(at + 1)));
    depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
    complain(depth >= 0 && depth <= 2);
    if (*at == ']' || *at == ',') end_row();
    ++at;
  }
  end_row();
  complain(depth == 0 && matrix.axes > 0);
  checked_product(matrix.factors, "factors");
  return matrix;
}

void visit_parallelism_matrices(std::span<const int> levels, std::span<const int> axes, const MatrixVisitor& visit) {
  const int devices = checked_product(levels, "levels"), positions = checked_product(axes, "axes");
  AXONN_CHECK(devices == positions && !levels.empty() && !axes.empty(), "perfmodel.parallelism_matrix", "axes ",
              text_of(axes), " are ", positions, " positions, levels ", text_of(levels), " are ", devices,
              " devices; need the same number");
  Enumeration(levels, axes, visit).run();
}

}  // namespace axonn
