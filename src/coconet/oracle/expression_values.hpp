#pragma once

#include "axonn/coconet/language/expression.hpp"
#include "axonn/coconet/oracle/oracle.hpp"
#include "coconet/oracle/oracle_memory.hpp"
#include "coconet/oracle/rank_values.hpp"

namespace axonn::coconet {

// Computes expressions that are element by element, from what the ranks hold now.
class ExpressionValues {
 public:
  // `group`: of the ranks that compute.
  ExpressionValues(const Program& program, const OracleMemory& memory, const OracleOptions& options, int group)
      : program_(program), memory_(memory), options_(options), group_(group) {}

  RankValues of(const Expression& expression) const;
  // The dim that is sliced, as the expression's slices and its sliced references say; -1: none.
  int sliced_dim(const Expression& expression) const;
  Extents extents_of(const Expression& expression) const;

 private:
  RankValues pointwise(const Expression& expression) const;
  RankValues part(const Expression& expression) const;
  RankValues dropped(const Attributes& attributes, RankValues values) const;

  const Program& program_;
  const OracleMemory& memory_;
  const OracleOptions& options_;
  int group_;
};

}  // namespace axonn::coconet
