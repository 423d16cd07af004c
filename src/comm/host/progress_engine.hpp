#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "axonn/comm/engine_counters.hpp"
#include "comm/host/queued_operation.hpp"
#include "transport/transport.hpp"
#include "comm/watch/device_calls.hpp"
#include "comm/watch/flight_recorder.hpp"
#include "comm/watch/hang_enquiry.hpp"

namespace axonn {

// Runs the operations of all communicators of one rank. Its thread makes and destroys the
// transport, because MPI wants one thread for both. The thread moves operations while the program
// computes. It sleeps when nothing is outstanding, and otherwise naps between unproductive polls. A
// thread inside Request::wait() polls in its place, so that a result needs no hand-over between
// threads. One lock ensures that only one thread at a time uses the transport.
//
// Each round serves the queues of the highest priority. It serves lower ones only when no higher
// one could move, so that nothing waits for ever.
//
// It also watches the others, four times per second when nothing is outstanding: whether a rank is
// lost, whether ranks can never go on (WaitProbe), and whether one waits in vain (HangEnquiry),
// also for a device (DeviceCalls). Such an error is thrown by every later call. If the program does
// not make one, the process ends. The thread that makes the engine is the program's.
class ProgressEngine {
 public:
  struct Options {
    std::chrono::seconds timeout{600};  // limit for a started operation without progress
    bool ends_process = true;           // kProgramComesBack after an error; false: ranks are threads
    // A nap takes a quarter of the time between messages. When no more come, each is twice as long
    // as the one before.
    std::chrono::microseconds shortest_nap{20}, longest_nap{1000};
  };
  static constexpr std::chrono::seconds kProgramComesBack{5};
  static constexpr std::chrono::milliseconds kWatchEvery{20};  // looks for late calls and letters
  using MakeTransport = std::function<std::unique_ptr<Transport>()>;

  // Returns when the transport is ready; rethrows the exception of `make_transport`.
  ProgressEngine(const MakeTransport& make_transport, Options options);

  // Ends at once after a failure or abandon(), whatever is outstanding. Otherwise waits until
  // everything is done.
  ~ProgressEngine();

  void submit(std::shared_ptr<QueuedOperation> operation);
  void wait(QueuedOperation& operation);

  // Set when the node has more ranks than cores: waiting threads then nap between unproductive
  // polls.
  void set_crowded(bool crowded) { crowded_ = crowded; }

  // The program makes no call after the one that follows.
  void program_ends() { program_ended_ = true; }

  // For a rank where an exception is propagating. Outstanding operations fail, and the transport
  // notifies the other ranks if it can.
  void abandon() noexcept;

  // Ends the job through the transport, whether or not another thread holds the lock.
  void abort(int exit_status) noexcept;

  // The place of the flight file if the job hangs.
  void set_flight_directory(std::filesystem::path directory);

  // Whether rank 0 has logged a report on the error.
  bool reported() const { return reported_; }

  Transport& transport() { return *transport_; }
  const std::shared_ptr<BufferPool>& pool() const { return pool_; }
  const std::shared_ptr<DeviceCalls>& device_calls() const { return device_calls_; }
  EngineCounters counters() const;

 private:
  using Clock = std::chrono::steady_clock;

  void run(const MakeTransport& make_transport, std::promise<void> started);
  void move_until_stopped();
  void take_nap(std::chrono::microseconds time);
  bool sleep_while_idle();
  void watch_while_idle();
  void wake();

  // Callers of these functions hold poll_mutex_.
  bool round();
  void admit();
  bool advance(OperationQueue& queue);
  bool may_start(const OperationQueue& queue, const QueuedOperation& operation) const;
  QueuedOperation::Progress poll(QueuedOperation& operation);
  bool compute_ahead();
  template <typename Call>
  bool attempt(QueuedOperation& operation, Call call);
  void check_for_trouble();
  void watch(Clock::time_point now);
  void probe(QueuedOperation& operation, Clock::time_point now);
  void answer(WaitProbe probe);
  std::optional<WaitProbe::Link> link(const QueuedOperation& operation) const;
  QueuedOperation* program_waits_in() const;
  QueuedOperation* find(const FlightRecorder::Key& key) const;
  bool too_late(const QueuedOperation& operation, Clock::time_point now) const;
  std::string lateness(const std::string& call, int waits_for) const;
  std::string first_call() const;
  HangState describe() const;
  void fail_all(const std::string& error) noexcept;

  const Options options_;
  std::shared_ptr<BufferPool> pool_;
  std::unique_ptr<Transport> transport_;

  std::mutex poll_mutex_;
  std::array<std::vector<std::shared_ptr<OperationQueue>>, 3> busy_queues_;  // by priority
  std::vector<std::shared_ptr<QueuedOperation>> admitted_, abandoned_;
  const std::shared_ptr<FlightRecorder> recorder_ = std::make_shared<FlightRecorder>();
  std::optional<HangEnquiry> enquiry_;  // made with the transport
  Clock::time_point last_watch_ = Clock::now();
  Clock::time_point last_progress_;  // the newest, or the end of a sleep
  std::string error_;                // error of the first failed operation; nothing moves after it
  Clock::time_point failed_;

  std::mutex inbox_mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<QueuedOperation>> inbox_;
  bool asleep_ = false;
  bool stop_ = false;

  const std::thread::id program_ = std::this_thread::get_id();
  std::atomic<bool> has_mail_{false}, crowded_{false}, enquires_{false}, reported_{false}, program_ended_{false};
  const std::shared_ptr<std::atomic<bool>> host_knows_ = std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<DeviceCalls> device_calls_ = std::make_shared<DeviceCalls>(recorder_, host_knows_);
  std::atomic<int> waiters_{0};
  std::atomic<int64_t> outstanding_{0}, polls_{0}, naps_{0}, wake_ups_{0};
  std::thread thread_;
};

}  // namespace axonn
