#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/watch/flight_recorder.hpp"
#include "comm/watch/rank_runs.hpp"

namespace axonn {

// A rank's own account when the job hangs.
struct HangState {
  static constexpr size_t kMostOpen = 16;
  static constexpr size_t kMostLast = 20;

  struct Open {  // called and not ended
    CallRecord call;
    RankRuns members;
    int waits_for = -1;  // rank of the job; -1: no one rank
  };

  int rank = 0;
  std::string host;
  int64_t step = -1;
  bool waits = false;            // program or device wait for a collective; false: it computes, or hangs elsewhere
  std::vector<Open> open;        // the oldest, at most kMostOpen
  std::vector<CallRecord> last;  // the newest, at most kMostLast
  // FlightRecorder::last_numbers(); of a device the number of the call to which it has come.
  std::unordered_map<uint32_t, int64_t> last_numbers;
};

struct HangReport {
  std::string headline;  // the collective that hangs, and who keeps it from ending
  std::string details;   // lines: who waits for whom, and what ranks did last
};

// `states` of the ranks that answered, each rank once, of a job of `ranks`.
HangReport hang_report(const std::vector<HangState>& states, int ranks, int64_t limit_seconds);

}  // namespace axonn
