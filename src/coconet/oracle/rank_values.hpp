#pragma once

#include <cstdint>
#include <vector>

#include "axonn/coconet/language/distribution.hpp"
#include "axonn/coconet/language/operation.hpp"
#include "axonn/coconet/oracle/oracle_cut.hpp"

namespace axonn::coconet {

// A number that no computation makes: see is_missing().
double missing();
// Equal bits; all NaNs are the same unless one is missing.
bool is_same(double a, double b);

// A value on every rank of its group. Every rank has room for the whole value.
struct RankValues {
  RankValues(Extents its_extents, int its_ranks, double fill);

  double* of(int rank) { return elements.data() + rank * count; }
  const double* of(int rank) const { return elements.data() + rank * count; }

  Extents extents;
  int64_t count;
  int ranks;
  std::vector<double> elements;  // rank after rank, each row by row
};

// Elements [begin, end) of a value, counted row by row.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// The holder of each element of a value: a rank, or one of these.
constexpr int kEveryRank = -1, kNoRank = -2;
std::vector<int> holders_of(const Distribution& distribution, const Extents& extents, const Cut& cut, int ranks);
inline bool holds(int holder, int rank) { return holder == kEveryRank || holder == rank; }

// The extents of an element by element result. If two do not fit, those of `a`.
Extents broadcast_extents(const Extents& a, const Extents& b);
// For each element of a value of extents `to`, the element of a value of extents `from` that goes
// with it; all -1 if the extents do not fit.
std::vector<int64_t> places(const Extents& from, const Extents& to);

double start_of(ReduceOp reduction);
// Missing if one of both is.
double combine(ReduceOp reduction, double a, double b);

}  // namespace axonn::coconet
