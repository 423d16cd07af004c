#pragma once

#include <functional>
#include <string>

#include "axonn/coconet/oracle/oracle.hpp"

namespace axonn::coconet::proofs {

// The verdict of two results of one program on a schedule. Both round in their own ways, so a
// comparison of two numbers that are nearly equal may turn out otherwise, and a number that is
// nearly zero may give an infinity or a NaN. Such elements are excused one by one, where the
// original jumps itself when the last bits of its inputs change, and nothing else is.
struct Verdict {
  std::string difference;   // "": none but excused ones
  int64_t comparisons = 0;  // excused elements
  int64_t infinities = 0;   // the same, with an infinity or a NaN
};

// `changed(n)` gives the original's result with inputs that differ in their last bits, in another
// way for each n. `compares`: whether the program has a comparison at all.
Verdict judged(const OracleResult& expected, const OracleResult& got, double tolerance, bool compares,
               const std::function<OracleResult(int)>& changed);

// Comparisons, and the sign of a number.
bool has_comparison(const Program& program);

// The inputs, each element changed by `unit` of itself or not, as a pattern of number n says.
OracleInputs with_changes(OracleInputs inputs, double unit, int n);

}  // namespace axonn::coconet::proofs
