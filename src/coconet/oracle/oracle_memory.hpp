#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/coconet/oracle/oracle.hpp"
#include "coconet/oracle/rank_values.hpp"

namespace axonn::coconet {

// A declared or computed value.
struct OracleEntry {
  TensorType type;
  std::vector<int> holders;
  RankValues values;
};

// The memory of all ranks while a program runs: declared tensors and scalars, whose elements are
// there from the start, and statements, whose elements are missing until they are written.
class OracleMemory {
 public:
  OracleMemory(const Program& program, const OracleInputs& inputs, const OracleOptions& options);

  const OracleEntry& at(std::string_view name) const;
  // A value as the ranks of a group see it: all missing if another group holds it.
  RankValues seen(std::string_view name, int group) const;

  // Writes a range of a statement's elements to the ranks that hold them. An update writes its
  // tensor, too, where the tensor has room: both are one piece of memory.
  void write(const Statement& statement, ElementRange range, const RankValues& values);

 private:
  void add(const std::string& name, const TensorType& type);
  void load(const Declaration& declaration, const OracleInputs& inputs);

  const OracleOptions& options_;
  int groups_;
  std::map<std::string, OracleEntry, std::less<>> entries_;
};

}  // namespace axonn::coconet
