#pragma once

#include <map>
#include <string>

#include "axonn/overlap/transform/transformation.hpp"

namespace axonn::overlap::proofs {

// How many programs had each operation, distribution, type, transformation and kind of section. The
// cells are all there from the start, so that an empty one shows.
class ProofTable {
 public:
  ProofTable();
  // A schedule that was compared with its original.
  void count(const Program& original, const Program& scheduled, const std::vector<Transformation>& log);

  int64_t smallest() const;
  std::string to_text() const;

 private:
  std::map<std::string, std::map<std::string, int64_t>> cells_;  // group -> cell -> programs
};

}  // namespace axonn::overlap::proofs
