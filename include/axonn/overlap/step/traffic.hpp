#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/comm/communicator.hpp"
#include "axonn/comm/request.hpp"
#include "axonn/grid/grid.hpp"

namespace axonn {

// Why bytes move in a step.
enum class Traffic : uint8_t { all_reduce, all_gather, reduce_scatter, data };
inline constexpr std::array<std::string_view, 4> kTrafficNames = {"all_reduce", "all_gather", "reduce_scatter", "data"};
// What a product waits for passes what only the optimizer waits for.
constexpr Priority queue_of(Traffic kind) {
  if (kind == Traffic::data) return Priority::low;
  return kind == Traffic::reduce_scatter ? Priority::normal : Priority::high;
}

// One collective of a step as this rank saw it. Times are the steady clock's.
struct FlightRecord {
  using Time = std::chrono::steady_clock::time_point;
  Traffic kind = Traffic::all_reduce;
  AxisSet axes;
  int64_t bytes = 0;        // of the whole buffer
  std::string_view tag;     // who asked; lives as long as its network
  Time launched;            // the host asked for it
  Time started, ended;      // it moved; equal to `launched` where the backend does not tell (NCCL)
  Time wait_began, waited;  // the host waited for it, the first time; both `ended` when it never did
};

// Sums over the records of one kind.
struct TrafficSum {
  int64_t collectives = 0;
  int64_t bytes = 0;
  double exposed_seconds = 0;  // the host waited
  double hidden_seconds = 0;   // it moved while the host did something else
};
using TrafficSums = std::array<TrafficSum, kTrafficNames.size()>;

// A collective under way and its line in the log.
struct Flight {
  Request request;
  int record = -1;
};

// Every collective of the present step, in the order of launching. Used by the host thread alone.
class TrafficLog {
 public:
  Flight launch(Traffic kind, AxisSet axes, int64_t bytes, std::string_view tag, Request request);
  void wait(const Flight& flight);

  // Forgets the step before; outside a step nothing is kept but the seconds.
  void begin_step();
  // Everything has been waited for: reads when each moved.
  void end_step();

  const std::vector<FlightRecord>& records() const { return records_; }  // of the last finished step, or the present one
  const TrafficSums& sums() const { return sums_; }                      // of the last finished step
  // Seconds the host has waited since begin_step().
  double waited_seconds() const { return waited_seconds_; }

 private:
  bool in_step_ = false;
  std::vector<FlightRecord> records_;
  std::vector<Request> requests_;  // of the records
  TrafficSums sums_{};
  double waited_seconds_ = 0;
};

}  // namespace axonn
