#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "axonn/grid/grid.hpp"
#include "comm/watch/flight_recorder.hpp"
#include "comm/watch/hang_report.hpp"
#include "comm/watch/wait_probe.hpp"

namespace axonn {

// Collectives that a library carries out on a device (NCCL). The engine does not move them, but it
// watches them as it does its own: they are in the flight records and in the report on a hang, one
// that makes no progress begins an enquiry, and when the job fails, all are ended at once, so that
// a thread that waits for the device comes back. Calls of any thread.
class DeviceCalls {
 public:
  using Clock = std::chrono::steady_clock;
  using Mark = std::shared_ptr<void>;  // the end of a call, on the device

  // The calls of one of the library's communicators, first in first out.
  class Queue {
   public:
    // `channel`: with kDeviceChannel, and no other queue of the group's ranks has it.
    Queue(Group group, std::string name, uint32_t channel)
        : group_(std::move(group)), name_(std::move(name)), channel_(channel) {}
    virtual ~Queue() = default;
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;

    virtual bool passed(const Mark& mark) = 0;  // whether the device is past it; does not wait
    // Ends the calls of `all` queues, this one among them, wherever they are. They take no more.
    virtual void abort(std::span<const std::shared_ptr<Queue>> all) noexcept = 0;

   protected:
    const Group& group() const { return group_; }
    const std::string& name() const { return name_; }

   private:
    friend class DeviceCalls;

    struct Open {
      const char* collective;
      int waits_for;
      int64_t number, bytes;
      uint64_t record;
      Mark mark;
    };
    FlightRecorder::Call call(const Open& open) const;

    const Group group_;
    const std::string name_;
    const uint32_t channel_;
    int64_t collectives_ = 0, messages_ = 0;
    std::deque<Open> open_;
    Clock::time_point last_progress_;
    ProbeClock probes_;
    uint64_t signature_ = 0;  // the last collective's
  };

  // `host_knows` is set when an error is thrown.
  DeviceCalls(std::shared_ptr<FlightRecorder> recorder, std::shared_ptr<std::atomic<bool>> host_knows)
      : recorder_(std::move(recorder)), host_knows_(std::move(host_knows)) {}
  ~DeviceCalls();  // gives an abort that is under way some seconds

  void add(std::shared_ptr<Queue> queue);  // watched as long as it lives

  struct Call {
    const char* collective = "";  // "all-reduce"; lives as long as the process
    std::string_view tag = {};
    int64_t bytes = 0;
    int peer = -1;             // for "send" and "receive": its index in the group
    CallDetails details = {};  // a collective's; the signature is made here
    uint64_t shape = 0;        // signature_of()
  };
  // `mark` comes behind the call on the device.
  void called(Queue& queue, const Call& call, Mark mark);

  // A call that made no progress for `limit`. The time from `now - away` on, when the process was
  // stopped, does not count.
  std::optional<std::string> late(Clock::time_point now, Clock::duration away, std::chrono::seconds limit);
  // Questions about collectives that make no progress, to the next member of their group. If two
  // members differ, then also two neighbours in this ring. They are asked only whether theirs is
  // the same call: nothing proves that a device can never go on.
  std::vector<std::pair<int, WaitProbe>> probes(Clock::time_point now);
  // Adds the first call of each queue that has not ended: the device has not come to the others.
  void describe(HangState& state);

  // The first error ends all calls. It does not wait for their end.
  void fail(const std::string& error) noexcept;
  bool failed() const { return failed_; }
  void check() const;  // BackendError after fail()

 private:
  std::vector<std::shared_ptr<Queue>> queues() const;
  void settle(Queue& queue);

  const std::shared_ptr<FlightRecorder> recorder_;
  const std::shared_ptr<std::atomic<bool>> host_knows_;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<Queue>> queues_;
  std::string error_;
  std::atomic<bool> failed_{false};
  std::future<void> ended_;  // the abort
};

}  // namespace axonn
