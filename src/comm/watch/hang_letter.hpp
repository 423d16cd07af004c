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
    ask,      // rank 0 to all
    answer,   // a state, to rank 0: it was asked, or waits in vain
    verdict,  // rank 0, or who has found out, to all: the error of every call
    probe     // along a wait
  };

  Kind kind = Kind::ask;
  HangState state;      // only in an answer
  std::string verdict;  // only in a verdict
  WaitProbe probe;      // only in a probe

  std::vector<uint8_t> bytes() const;

  // A letter from rank `from` of a job of `ranks`. The result is safe for hang_report(), and names
  // ranks of the job.
  // BackendError when the bytes are no letter, or name ranks that do not exist.
  static HangLetter read(const std::vector<uint8_t>& bytes, int from, int ranks);
};

}  // namespace axonn
