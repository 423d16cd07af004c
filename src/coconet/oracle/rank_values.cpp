#include "coconet/oracle/rank_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "axonn/coconet/oracle/oracle.hpp"

namespace axonn::coconet {
namespace {

// A quiet NaN with bits of its own. It never enters a computation, so none can change its bits.
constexpr uint64_t kMissingBits = 0x7ff8'6d69'7373'6564;

}  // namespace

double missing() { return std::bit_cast<double>(kMissingBits); }

bool is_missing(double element) { return std::bit_cast<uint64_t>(element) == kMissingBits; }

bool is_same(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return is_missing(a) == is_missing(b);
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

RankValues::RankValues(Extents its_extents, int its_ranks, double fill)
    : extents(std::move(its_extents)),
      count(count_of(extents)),
      ranks(its_ranks),
      elements(static_cast<size_t>(count * its_ranks), fill) {}

std::vector<int> holders_of(const Distribution& distribution, const Extents& extents, const Cut& cut, int ranks) {
  std::vector<int> holders(static_cast<size_t>(count_of(extents)), kEveryRank);
  if (distribution.is(Placement::rooted)) {
    const bool there = distribution.root >= 0 && distribution.root < ranks;
    holders.assign(holders.size(), there ? distribution.root : kNoRank);
  } else if (distribution.is(Placement::sliced)) {
    if (distribution.dim < 0 || distribution.dim >= std::ssize(extents)) {
      holders.assign(holders.size(), kNoRank);
      return holders;
    }
    const auto dim = static_cast<size_t>(distribution.dim);
    const int64_t below = count_of({extents.begin() + distribution.dim + 1, extents.end()});
    std::vector<int> owners;
    for (int64_t index = 0; index < extents[dim]; ++index) owners.push_back(cut.owner(index, extents[dim], ranks));
    for (size_t i = 0; i < holders.size(); ++i)
      holders[i] = owners[static_cast<size_t>(static_cast<int64_t>(i) / below % extents[dim])];
  }
  return holders;
}

Extents broadcast_extents(const Extents& a, const Extents& b) {
  if (a.size() < b.size()) {
    Extents result = b;
    const size_t shift = b.size() - a.size();
    for (size_t dim = 0; dim < a.size(); ++dim)
      if (a[dim] != 1) result[dim + shift] = a[dim];
    return result;
  }
  Extents result = a;
  const size_t shift = a.size() - b.size();
  for (size_t dim = 0; dim < b.size(); ++dim)
    if (result[dim + shift] == 1) result[dim + shift] = b[dim];
  return result;
}

std::vector<int64_t> places(const Extents& from, const Extents& to) {
  std::vector<int64_t> result(static_cast<size_t>(count_of(to)), 0);
  int64_t to_stride = 1, from_stride = 1;
  for (size_t behind = 1; behind <= std::max(from.size(), to.size()); ++behind) {
    const int64_t extent = behind <= from.size() ? from[from.size() - behind] : 1;
    const int64_t wanted = behind <= to.size() ? to[to.size() - behind] : 1;
    if (extent != 1 && extent != wanted) return std::vector<int64_t>(result.size(), -1);
    for (size_t i = 0; extent != 1 && i < result.size(); ++i)
      result[i] += static_cast<int64_t>(i) / to_stride % wanted * from_stride;
    to_stride *= wanted;
    from_stride *= extent;
  }
  return result;
}

double start_of(ReduceOp reduction) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return reduction == ReduceOp::sum ? 0 : reduction == ReduceOp::max ? -kInfinity : kInfinity;
}

double combine(ReduceOp reduction, double a, double b) {
  if (is_missing(a) || is_missing(b)) return missing();
  const Operation operation = reduction == ReduceOp::sum   ? Operation::add
                              : reduction == ReduceOp::max ? Operation::maximum
                                                           : Operation::minimum;
  const double both[] = {a, b};
  return info(operation).meaning(both);
}

}  // namespace axonn::coconet
