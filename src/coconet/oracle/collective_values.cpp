#include "coconet/oracle/collective_values.hpp"

namespace axonn::coconet {
namespace {

double combined(ReduceOp reduction, const RankValues& contributions, int64_t place) {
  double sum = contributions.of(0)[place];
  for (int rank = 1; rank < contributions.ranks; ++rank) sum = combine(reduction, sum, contributions.of(rank)[place]);
  return sum;
}

double given(const OracleEntry& from, Placement needed, int64_t place) {
  const int giver = from.holders[static_cast<size_t>(place)];
  return from.type.distribution.is(needed) && giver >= 0 ? from.values.of(giver)[place] : missing();
}

}  // namespace

void communicate(const Expression& collective, const OracleEntry& from, ElementRange range, RankValues& result) {
  for (int64_t i = range.begin; i < range.end; ++i) {
    double element = missing();
    if (collective.is(Operation::all_gather))
      element = given(from, Placement::sliced, i);
    else if (collective.is(Operation::broadcast))
      element = given(from, Placement::rooted, i);
    else
      element = combined(collective.attributes().reduction, from.values, i);
    for (int rank = 0; rank < result.ranks; ++rank) result.of(rank)[i] = element;
  }
}

void send(const OracleEntry& from, ElementRange range, RankValues& result) {
  for (int rank = 0; rank < result.ranks; ++rank)
    for (int64_t i = range.begin; i < range.end; ++i) result.of(rank)[i] = from.values.of(rank)[i];
}

}  // namespace axonn::coconet
