#pragma once

#include <set>
#include <string>
#include <vector>

#include "coconet/oracle/statement_runner.hpp"

namespace axonn::coconet {

// Runs programs statement by statement, and their sections as oracle.hpp says. A section runs where
// its first statement stands.
class SectionRunner {
 public:
  SectionRunner(const Program& program, const OracleOptions& options, StatementRunner& runner)
      : program_(program), options_(options), runner_(runner) {}

  void run_program();

 private:
  using Members = std::vector<const Statement*>;

  bool is_outermost(const Section& section) const;
  Members statements_of(const std::string& member) const;
  void run_fused(const Section& section);
  void run_overlapped(const Section& section);
  void run_member(const Members& members, bool fused, ElementRange range);

  // The three parts of a fused section.
  void begin(const Members& members, ElementRange range);
  void run_block(const Members& members, ElementRange range);
  void end(const Members& members, ElementRange range);

  void run(const Statement& statement, ElementRange range);
  bool only_stores(const Statement& statement, const Members& members) const;
  bool is_plain_scalar(const Statement& statement) const;
  int64_t loop_count(const Members& members) const;
  ElementRange block(int64_t loop, int64_t number) const;
  std::vector<int> shuffled_blocks(const Section& section) const;

  const Program& program_;
  const OracleOptions& options_;
  StatementRunner& runner_;
  std::set<std::string> scalars_done_;
};

}  // namespace axonn::coconet
