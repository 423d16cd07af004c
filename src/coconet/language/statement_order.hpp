#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "axonn/coconet/language/dataflow.hpp"

namespace axonn::coconet {

// The statements that must run before each statement: those whose values it reads and, for an
// update, those that read the tensor's value from before.
class Dependencies {
 public:
  explicit Dependencies(const ProgramParts& parts);
  const std::set<std::string>& of(const std::string& statement) const { return before_.at(statement); }
  // Whether `statement` must run after `other`, through any number of statements.
  bool reach(const std::string& statement, const std::string& other) const;

 private:
  std::map<std::string, std::set<std::string>> before_;
};

// The statements with the members of every section next to each other, otherwise in their order.
// Empty if that is impossible: a statement outside of a section depends on it and feeds it.
std::vector<Statement> in_sections(const ProgramParts& parts, const Dependencies& dependencies);

// Sections in the order of their statements; the members of a fused one too. `program` has the
// parts' statements.
void put_sections_in_order(ProgramParts& parts, const Program& program);

}  // namespace axonn::coconet
