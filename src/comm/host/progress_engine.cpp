#include "comm/host/progress_engine.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "axonn/core/error.hpp"
#include "comm/host/buffer_pool.hpp"
#include "core/stop_signals.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

constexpr int kPollsBeforeWaiterNaps = 500;
constexpr auto kWaiterNap = 100us;
constexpr auto kIdleWatch = 250ms;

// Linux lets a thread that wakes run at once only if it asks for less time than the running one
// (EEVDF, since 6.6). Otherwise it waits for the next tick, 1 to 4 ms, and so do messages while the
// ranks' products keep all cores. Since 6.12 threads can say how much they ask for; older kernels
// ignore it.
void ask_for_short_slices() {
  struct {  // the kernel's sched_attr, which glibc has from 2.41 on
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0 || attributes.policy != SCHED_OTHER)
    return;
  attributes.runtime = 100'000;  // nanoseconds, the least that Linux takes
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

ProgressEngine::ProgressEngine(const MakeTransport& make_transport, Options options)
    : options_(options), pool_(std::make_shared<BufferPool>()) {
  std::promise<void> started;
  auto outcome = started.get_future();
  thread_ = std::thread(
      [this, &make_transport, started = std::move(started)]() mutable { run(make_transport, std::move(started)); });
  outcome.wait();
  try {
    outcome.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

ProgressEngine::~ProgressEngine() {
  {
    const std::lock_guard lock(inbox_mutex_);
    stop_ = true;
    *host_knows_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ProgressEngine::run(const MakeTransport& make_transport, std::promise<void> started) {
  prctl(PR_SET_NAME, "axonn-comm");
  leave_stop_signals_to_main();
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds; the default of 50 us would triple the shortest nap
  ask_for_short_slices();
  try {
    transport_ = make_transport();
    enquiry_.emplace(
        *transport_, *recorder_, [this] { return describe(); }, options_.timeout,
        [this](WaitProbe probe) { answer(std::move(probe)); });
  } catch (...) {
    started.set_exception(std::current_exception());
    return;
  }
  started.set_value();  // from here on `make_transport` may not exist any more
  move_until_stopped();
  enquiry_.reset();
  transport_.reset();
}

// The end of a nap takes the core from a thread that computes, for about 20 us. So a message costs
// four naps, however long it takes.
void ProgressEngine::move_until_stopped() {
  auto nap = options_.shortest_nap;
  Clock::duration pace{};  // between messages, averaged
  while (sleep_while_idle()) {
    bool progressed = false;
    {
      const std::lock_guard lock(poll_mutex_);
      progressed = round();
    }
    const auto now = Clock::now();
    if (progressed) {
      pace += (std::min<Clock::duration>(now - last_progress_, 8 * options_.longest_nap) - pace) / 4;
      last_progress_ = now;
      nap = std::clamp(std::chrono::duration_cast<std::chrono::microseconds>(pace / 4), options_.shortest_nap,
                       options_.longest_nap);
    } else {
      ++naps_;
      take_nap(nap);
      if (now - last_progress_ > 2 * pace) nap = std::min(2 * nap, options_.longest_nap);
    }
  }
}

// A new operation ends it, and so does the engine's end.
void ProgressEngine::take_nap(std::chrono::microseconds time) {
  std::unique_lock lock(inbox_mutex_);
  asleep_ = true;
  wake_.wait_for(lock, time, [this] { return has_mail_ || stop_; });
  asleep_ = false;
}

// Also sleeps while a waiting thread polls. Returns false when it is time to end.
bool ProgressEngine::sleep_while_idle() {
  if (outstanding_ > 0 && waiters_ == 0) return true;
  const auto due = [&] { return (outstanding_ > 0 && waiters_ == 0) || (stop_ && outstanding_ == 0); };
  std::unique_lock lock(inbox_mutex_);
  while (!due()) {
    asleep_ = true;
    const bool woken = wake_.wait_for(lock, enquires_ ? Clock::duration(kWatchEvery) : kIdleWatch, due);
    asleep_ = false;
    if (woken) {
      ++wake_ups_;
      break;
    }
    lock.unlock();
    watch_while_idle();
    lock.lock();
  }
  last_progress_ = Clock::now();
  return !stop_ || outstanding_ > 0;
}

void ProgressEngine::wake() {
  const std::lock_guard lock(inbox_mutex_);
  if (asleep_) wake_.notify_one();
}

void ProgressEngine::submit(std::shared_ptr<QueuedOperation> operation) {
  operation->engine_ = this;
  operation->host_knows_ = host_knows_;
  operation->details_.by_program = std::this_thread::get_id() == program_;
  const std::lock_guard lock(inbox_mutex_);
  inbox_.push_back(std::move(operation));
  has_mail_ = true;
  ++outstanding_;
  if (asleep_ && waiters_ == 0) wake_.notify_one();
}

void ProgressEngine::wait(QueuedOperation& operation) {
  ++waiters_;
  const bool program = std::this_thread::get_id() == program_;
  if (program) operation.program_waits_.store(true, std::memory_order_release);
  for (int idle_polls = 0; !operation.done();) {
    bool progressed = false;
    if (const std::unique_lock lock(poll_mutex_, std::try_to_lock); lock && !operation.done()) progressed = round();
    if (progressed) {
      idle_polls = 0;
    } else if (!operation.done()) {
      if (crowded_ && ++idle_polls > kPollsBeforeWaiterNaps)
        std::this_thread::sleep_for(kWaiterNap);
      else
        sched_yield();
    }
  }
  if (program) operation.program_waits_.store(false, std::memory_order_relaxed);
  if (--waiters_ == 0 && outstanding_ > 0) wake();
}

void ProgressEngine::abandon() noexcept {
  const std::lock_guard lock(poll_mutex_);
  *host_knows_ = true;
  fail_all("this rank had another error before");
  admit();
}

void ProgressEngine::abort(int exit_status) noexcept {
  // The thread that holds the lock may be stuck in the very call that has to end.
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (const std::unique_lock lock(poll_mutex_, std::try_to_lock); lock) {
      transport_->abort(exit_status);
      return;
    }
    std::this_thread::sleep_for(10ms);
  }
  transport_->abort(exit_status);
}

EngineCounters ProgressEngine::counters() const {
  return {.polls = polls_, .naps = naps_, .wake_ups = wake_ups_, .allocations = pool_->allocations()};
}

}  // namespace axonn
