#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "axonn/comm/engine_counters.hpp"
#include "comm/host/queued_operation.hpp"
#include "comm/transport/transport.hpp"

namespace axonn {

// Runs the operations of all communicators of one rank. Its thread makes and destroys the transport (MPI wants one thread for both) and
// moves operations while the program computes: asleep when nothing is outstanding, napping between unproductive polls otherwise. A thread
// inside Request::wait() polls in its place, without naps, so that a result needs no hand-over between threads. One lock makes sure that
// one thread at a time touches the transport.
//
// Each round serves the queues of the highest priority; lower ones are served when no higher one could move, so that nothing waits for
// ever.
class ProgressEngine {
 public:
  struct Options {
    std::chrono::seconds timeout{600};  // without progress of a started operation
  };
  using MakeTransport = std::function<std::unique_ptr<Transport>()>;

  // Returns when the transport stands; throws what making it threw.
  ProgressEngine(const MakeTransport& make_transport, Options options);

  // Ends at once, whatever is outstanding, when the engine has failed or `abandon` was called; else after everything is done.
  ~ProgressEngine();

  void submit(std::shared_ptr<QueuedOperation> operation);
  void wait(QueuedOperation& operation);

  // More ranks than cores here: threads that wait in vain nap now and then.
  void set_crowded(bool crowded) { crowded_ = crowded; }

  // For a rank on which an exception is on its way: outstanding operations fail, and the other ranks are told where the transport can.
  void abandon() noexcept;

  // Ends the job through the transport, whether or not another thread holds the lock.
  void abort(int exit_status) noexcept;

  Transport& transport() { return *transport_; }
  const std::shared_ptr<BufferPool>& pool() const { return pool_; }
  EngineCounters counters() const;

 private:
  using Clock = std::chrono::steady_clock;

  void run(const MakeTransport& make_transport, std::promise<void> started);
  void move_until_stopped();
  bool sleep_while_idle();
  void wake();

  // Those below hold poll_mutex_.
  bool round();
  void admit();
  bool advance(OperationQueue& queue);
  bool may_start(const OperationQueue& queue, const QueuedOperation& operation) const;
  QueuedOperation::Progress poll(QueuedOperation& operation);
  void check_for_trouble();
  std::string trouble(const QueuedOperation& operation, Clock::time_point now) const;
  void fail_all(const std::string& error) noexcept;

  const Options options_;
  std::shared_ptr<BufferPool> pool_;
  std::unique_ptr<Transport> transport_;

  std::mutex poll_mutex_;
  std::array<std::vector<std::shared_ptr<OperationQueue>>, 3> busy_queues_;  // by priority
  std::vector<std::shared_ptr<QueuedOperation>> admitted_, abandoned_;
  Clock::time_point last_check_ = Clock::now();
  std::string error_;  // of the first operation that failed; nothing moves after it

  std::mutex inbox_mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<QueuedOperation>> inbox_;
  bool asleep_ = false;
  bool stop_ = false;

  std::atomic<bool> has_mail_{false}, crowded_{false};
  std::atomic<int> waiters_{0};
  std::atomic<int64_t> outstanding_{0}, polls_{0}, naps_{0}, wake_ups_{0};
  std::thread thread_;
};

}  // namespace axonn
