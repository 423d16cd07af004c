#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// The data that a rank has read of --data. All ranks must have read the same, and a resumed run
// what it read before.
struct LoadedData {
  struct Fact {
    std::string name, value;  // "the number of training tokens", "9724"
  };
  uint64_t fingerprint = 0;      // hash of what a run trains on, as checkpoints keep it
  std::vector<Fact> facts = {};  // words for a person, in the order in which differences are named
  std::string left_out = "";     // FilesRead::left_out_text(); may differ, and is named if something else does
};

// UserError on every rank if ranks have read something else than rank 0: it names them, the
// host of the first one, and the first fact that differs. Every rank calls it, with the same names
// of facts.
void check_ranks_read_the_same(Communicator& everyone, const LoadedData& mine);

}  // namespace axonn
