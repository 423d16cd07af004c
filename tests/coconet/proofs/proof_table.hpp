#pragma once

#include <map>
#include <string>

#include "axonn/coconet/transform/transformation.hpp"
#include "coconet/proofs/random_program.hpp"

namespace axonn::coconet::proofs {

// How many programs had each operation, distribution, type, transformation, kind of section, number
// of ranks and groups, size and root: of
// those that the oracle compared, and of those that were executed. The cells are all there from the
// start, so that an empty one shows.
class ProofTable {
 public:
  ProofTable();
  // A schedule that was compared with its original.
  void count(const RandomProgram& random, const Program& scheduled, const std::vector<Transformation>& log,
             bool executed);

  // Of the programs that the oracle compared.
  int64_t smallest() const;
  std::string to_text() const;

 private:
  struct Programs {
    int64_t compared = 0, executed = 0;
  };
  std::map<std::string, std::map<std::string, Programs>> cells_;  // group -> cell -> programs
};

}  // namespace axonn::coconet::proofs
