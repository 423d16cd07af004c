#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/watch/hang_report.hpp"
#include "comm/watch/wait_probe.hpp"

namespace axonn {

// A letter between ranks when the job hangs, or one of them waits for long.
struct HangLetter {
  enum class Kind : uint8_t {
    waits,    // up the tree, to rank 0: a rank waits in vain
    ask,      // down the tree, to all
    heard,    // to who sent one of the tree's letters, at once
    answer,   // states, to who asked
    verdict,  // all over the tree, from rank 0 or who has found out: the error of every call
    probe     // along a wait
  };

  Kind kind = Kind::ask;
  std::vector<HangState> states;  // only in an answer: of the sender and of ranks below it
  std::string verdict;            // only in a verdict
  WaitProbe probe;                // only in a probe

  // Whether it goes over the tree of ranks (rank_tree.hpp), and is acknowledged.
  bool over_tree() const { return kind == Kind::waits || kind == Kind::ask || kind == Kind::verdict; }

  std::vector<uint8_t> bytes() const;

  // A letter from rank `from` of a job of `ranks`. Its states, each rank's once, are safe
  // for hang_report(), and name ranks of the job.
  // BackendError when the bytes are no letter, or name ranks that do not exist.
  static HangLetter read(const std::vector<uint8_t>& bytes, int from, int ranks);
};

}  // namespace axonn
