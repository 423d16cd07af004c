#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "axonn/perfmodel/placement/parallelism_matrix.hpp"

namespace axonn::testing_support {

// One row of the tables of the P2 paper (appendix A, tables 3 and 4).
struct P2Row {
  std::string source, gpu, flag;
  std::vector<int> levels, axes, reduce_axes;
  ParallelismMatrix matrix;
  std::optional<int> total_programs;  // total of the rows with the same system, axes and reduction axes
  std::optional<double> all_reduce_ring, all_reduce_tree, optimal_ring, optimal_tree;  // seconds
};

// The 104 rows of appendix A, in its order; nothing if the tables are missing.
std::vector<P2Row> p2_appendix();

// Rows of the same system, axes and reduction axes, one after the other in the appendix.
std::vector<std::vector<P2Row>> p2_groups();

// The matrices of visit_parallelism_matrices() as a list.
std::vector<ParallelismMatrix> parallelism_matrices(std::span<const int> levels, std::span<const int> axes);

}  // namespace axonn::testing_support
