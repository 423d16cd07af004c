#include "coconet/proofs/flipped.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "axonn/core/philox.hpp"

namespace axonn::coconet::proofs {
namespace {

constexpr int kChanges = 8;

bool agree(double a, double b, double tolerance) {
  if (is_missing(a) || is_missing(b)) return false;
  if (!std::isfinite(a) || !std::isfinite(b)) return a == b || (std::isnan(a) && std::isnan(b));
  return std::fabs(a - b) <= tolerance * std::max({1.0, std::fabs(a), std::fabs(b)});
}

bool compares(const Expression& expression) {
  const bool jumps = info(expression.operation()).precedence == 1 || expression.is(Operation::sign);
  return jumps || std::ranges::any_of(expression.operands(), compares);
}

using Values = std::map<std::string, OracleValue, std::less<>>;

}  // namespace

bool has_comparison(const Program& program) {
  return std::ranges::any_of(program.statements(), [](const Statement& one) { return compares(one.expression); });
}

OracleInputs with_changes(OracleInputs inputs, double unit, int n) {
  for (auto& [tensor, parts] : inputs)
    for (size_t part = 0; part < parts.size(); ++part)
      for (size_t i = 0; i < parts[part].size(); ++i) {
        const uint32_t word =
            philox(static_cast<uint64_t>(n), i, static_cast<uint32_t>(part), philox_stream("changes", tensor))[0];
        parts[part][i] *= 1 + unit * (static_cast<double>(word % 3) - 1) * (1 << n % 4);
      }
  return inputs;
}

Verdict judged(const OracleResult& expected, const OracleResult& got, double tolerance, bool compares,
               const std::function<OracleResult(int)>& changed) {
  Verdict verdict;
  verdict.difference = difference(expected, got, tolerance);
  if (verdict.difference.empty()) return verdict;
  std::vector<OracleResult> others;
  for (int n = 0; n < kChanges; ++n) others.push_back(changed(n));
  OracleResult rest = got;  // without what is excused
  const auto excuse = [&](const Values& right, Values& wrong, Values OracleResult::* kind) {
    for (const auto& [name, value] : right) {
      const auto found = wrong.find(name);
      if (found == wrong.end() || found->second.parts.size() != value.parts.size()) continue;
      for (size_t part = 0; part < value.parts.size(); ++part)
        for (size_t i = 0; i < std::min(value.parts[part].size(), found->second.parts[part].size()); ++i) {
          const double a = value.parts[part][i];
          double& b = found->second.parts[part][i];
          if (agree(a, b, tolerance) || is_missing(a) || is_missing(b)) continue;
          bool jumps = false, finite = std::isfinite(a) && std::isfinite(b);
          for (const OracleResult& other : others) {
            const double c = (other.*kind).at(name).parts[part][i];
            jumps = jumps || !agree(a, c, tolerance);
            finite = finite && std::isfinite(c);
          }
          if (!jumps || (finite && !compares)) continue;
          b = a;
          ++(finite ? verdict.comparisons : verdict.infinities);
        }
    }
  };
  excuse(expected.outputs, rest.outputs, &OracleResult::outputs);
  excuse(expected.states, rest.states, &OracleResult::states);
  verdict.difference = difference(expected, rest, tolerance);
  return verdict;
}

}  // namespace axonn::coconet::proofs
