#pragma once

#include <map>
#include <string>
#include <vector>

#include "coconet/oracle/expression_values.hpp"
#include "coconet/oracle/oracle_memory.hpp"

namespace axonn::coconet {

// Runs single statements on all ranks, whole or in ranges, in two steps: `take` computes elements
// from what the ranks hold at that moment, and `deliver` lets the ranks see them. Reductions add
// up what they take; what they deliver is the result of all that they have taken.
class StatementRunner {
 public:
  StatementRunner(const Program& program, const OracleOptions& options, OracleMemory& memory)
      : program_(program), options_(options), memory_(memory) {}

  // The number of elements over which a statement loops: its own, or those that a reduction reads.
  int64_t loop_count(const Statement& statement) const;
  // The elements of a loop that are part of a range; both may lie outside of it.
  void take(const Statement& statement, ElementRange range);
  void deliver(const Statement& statement, ElementRange range);
  void run(const Statement& statement, ElementRange range);
  // Takes again; what has changed since is missing.
  void take_again(const Statement& statement, ElementRange range);

 private:
  ElementRange within_loop(const Statement& statement, ElementRange range) const;
  RankValues& taken(const Statement& statement, double start);
  void take_expression(const Expression& expression, const Statement& statement, ElementRange range);
  void take_reduction(const Statement& statement, ElementRange range);
  void take_layer(const Statement& statement, ElementRange range);
  void take_collective(const Statement& statement, ElementRange range);
  ExpressionValues values_for(const Statement& statement) const;

  const Program& program_;
  const OracleOptions& options_;
  OracleMemory& memory_;
  std::map<std::string, RankValues, std::less<>> taken_;
};

}  // namespace axonn::coconet
