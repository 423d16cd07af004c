#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "comm/watch/flight_recorder.hpp"

namespace axonn {

// A letter along a wait: "I wait in this call for you, what do you do?" (K. M. Chandy, J. Misra and
// L. M. Haas, "Distributed deadlock detection", 1983). A rank whose call makes no progress writes
// one to the rank for which it waits, after ProbeClock::kFirst and then more and more rarely. It
// is read by the engine, which knows the calls of its rank (ProgressEngine::answer):
//
// - It has another call with this number: the ranks call different things.
// - It has not called it, and its program has ended: nobody will.
// - It has not called it, and its program waits in another call, which in turn waits for a rank:
//   the probe goes on to that one. A probe that comes back to a rank which still waits in the call
//   that it has in the path has gone around a circle, and none of its ranks can go on.
// - Otherwise it computes, writes a file, or is slow, and the probe ends there.
//
// Why a circle is proof. A link says: rank A waits in call Y, and Y cannot end on A before rank B
// has called it (QueuedOperation::needs_its_call). When the probe was at B, B had not called Y, and
// the one thread that calls for B was waiting in call W. So until W ends on B, B does not call Y,
// and Y does not end on A. The last link ends at a rank that is in the path already, in the same
// call as then, which has not ended since. Go around from there: as that call has not ended, the
// rank before it in the circle has not got what it waits for, and so on. So no link has changed
// since the probe passed it, and none ever will. Messages on the way cannot break it: a rank that
// has not called Y has sent none in Y.
//
// The thread that made the Environment is the one that counts, in what it waits for and in what it
// calls. Waits of other threads are no proof, since that thread goes on and may call. Nor are
// channels on which other threads call. A wait for a rank that has called Y too is not a link, as
// its data may be on the way: from the second link on, the probe is passed on within Y, if Y needs
// all its members. The first link needs no such help, because each rank in Y sends its own probe.
struct WaitProbe {
  // The call that a rank waits in.
  struct Call {
    uint32_t channel = 0;
    int64_t order = 0;   // FlightRecorder::Key's
    int peer = -1;       // a message's: the asker
    bool sends = false;  // a message's: the asked rank
    uint64_t signature = 0;
    std::string text;        // CallRecord::full_text()
    bool needed = false;     // the asker's call cannot end before the asked rank has called it
    bool needs_all = false;  // nor before any member has
    // The collectives before it on the channel: where one of them differs, so does this one.
    struct Earlier {
      int64_t order = 0;
      uint64_t signature = 0;
      std::string text;
    };
    std::vector<Earlier> earlier = {};

    FlightRecorder::Key key() const { return {channel, order, peer, sends}; }
    bool same(const Call& other) const {
      return channel == other.channel && order == other.order && signature == other.signature;
    }
  };
  struct Link {
    int rank = 0;
    Call call;
  };

  std::vector<Link> path;      // the last one asks
  std::vector<int> passed_on;  // by these ranks, which are in the last call
  bool program_waits = false;  // in the first call

  const Link& asker() const { return path.back(); }
  bool within(int ranks) const;  // whether it names ranks of a job of so many, and has an asker

  // Errors that end the job. `here`: the rank that has read the probe. A mismatch names the first
  // calls of the two that differ.
  std::string mismatch(int here, const FlightRecorder& own_calls) const;
  std::string ended(int here) const;
  std::string circle(size_t begin) const;  // path[begin] and what follows
};
std::vector<WaitProbe::Call::Earlier> earlier_calls(const FlightRecorder& recorder, const FlightRecorder::Key& call);
void to_json(nlohmann::json& json, const WaitProbe& probe);
void from_json(const nlohmann::json& json, WaitProbe& probe);

// When a wait is worth a probe: half a second after its last progress, or after it waits for
// another rank, and then each time that the wait has become twice as long.
class ProbeClock {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kFirst{500};

  bool due(Clock::time_point now, Clock::time_point last_progress, int waits_for);

 private:
  Clock::time_point since_;
  int waits_for_ = -1;
  int sent_ = 0;
};

}  // namespace axonn
