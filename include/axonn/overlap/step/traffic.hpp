#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/comm/communicator.hpp"
#include "axonn/comm/request.hpp"
#include "axonn/grid/grid.hpp"
#include "axonn/grid/shard_spec.hpp"

namespace axonn {

// Why bytes move in a step.
enum class Traffic : uint8_t { all_reduce, all_gather, reduce_scatter, data, update };
inline constexpr std::array<std::string_view, 5> kTrafficNames = {"all_reduce", "all_gather", "reduce_scatter", "data",
                                                                  "update"};
// Collectives that a product waits for overtake those that only the optimizer waits for.
constexpr Priority queue_of(Traffic kind) {
  if (kind == Traffic::data) return Priority::low;
  return kind == Traffic::reduce_scatter ? Priority::normal : Priority::high;
}

// One collective of a step as this rank saw it. Times are of the steady clock.
struct RequestRecord {
  using Time = std::chrono::steady_clock::time_point;
  Traffic kind = Traffic::all_reduce;
  AxisSet axes;
  int64_t bytes = 0;        // size of the whole buffer
  std::string_view tag;     // the caller; valid as long as its network
  Time launched;            // time of the host's call
  Time started, ended;      // it moved; both equal `launched` when the backend does not report times (NCCL)
  Time wait_began, waited;  // the first wait of the host; both equal `ended` when it never waited
};

// Sums over the records of one kind.
struct TrafficSum {
  int64_t collectives = 0;
  int64_t bytes = 0;
  double exposed_seconds = 0;  // the host waited
  double hidden_seconds = 0;   // it moved while the host did other work
};
using TrafficSums = std::array<TrafficSum, kTrafficNames.size()>;

struct TrafficLine;

// A collective that was started, and its line in the log. Copies share both.
struct LoggedRequest {
  Request request;
  std::shared_ptr<TrafficLine> line;
};

// Elements of an arena whose weights are valid once a request is done.
struct WrittenRange {
  Range range;
  LoggedRequest valid_at;
};

// The collectives of a step, in launch order. A collective is booked to the step in which the host
// first waits for it, even if it was launched in an earlier step or between two steps. One that is
// dropped without a wait is booked to the step in which that happens. A wait between two steps is
// not booked. Used only by the host thread.
class TrafficLog {
 public:
  LoggedRequest launch(Traffic kind, AxisSet axes, int64_t bytes, std::string_view tag, Request request);
  // Returns when the result may be used. The log then holds the request no longer.
  void wait(const LoggedRequest& request);

  // Waits for everything under way, which its holders then find done.
  void land() const;

  void begin_step();
  // Books what was waited for. A request that is held, not waited for, stays open for a later step.
  void end_step();

  const std::vector<RequestRecord>& records() const { return records_; }  // last finished step
  const TrafficSums& sums() const { return sums_; }                       // last finished step
  // Seconds the host has waited since begin_step().
  double waited_seconds() const { return waited_seconds_; }

 private:
  using Line = std::shared_ptr<TrafficLine>;
  void book(TrafficLine& line);

  bool in_step_ = false;
  std::vector<Line> open_;  // not booked yet
  std::vector<RequestRecord> records_;
  TrafficSums sums_{};
  double waited_seconds_ = 0;
};

}  // namespace axonn
