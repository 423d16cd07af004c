#include "transport/rank_tree.hpp"

#include <algorithm>
#include <cstdint>

namespace axonn {
namespace {

constexpr int kChildren = 4;

}  // namespace

int parent_of(int rank) { return (rank - 1) / kChildren; }

std::vector<int> children_of(int rank, int ranks) {
  std::vector<int> children;
  const int64_t first = int64_t{kChildren} * rank + 1;
  for (int64_t child = first; child < std::min<int64_t>(first + kChildren, ranks); ++child) {
    children.push_back(static_cast<int>(child));
  }
  return children;
}

int ranks_below(int rank, int ranks) {
  int64_t all = 0;
  for (int64_t first = rank, last = rank; first < ranks; first = kChildren * first + 1, last = kChildren * (last + 1))
    all += std::min<int64_t>(last, ranks - 1) - first + 1;
  return static_cast<int>(all);
}

int tree_levels(int ranks) {
  int levels = 0;
  for (int rank = ranks - 1; rank > 0; rank = parent_of(rank)) ++levels;
  return levels;
}

bool is_below(int rank, int other) {
  while (rank > other) rank = parent_of(rank);
  return rank == other;
}

}  // namespace axonn
