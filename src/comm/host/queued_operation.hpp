#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/comm/production.hpp"
#include "axonn/comm/step_moment.hpp"
#include "comm/watch/call_signature.hpp"
#include "transport/transport.hpp"
#include "comm/watch/flight_recorder.hpp"
#include "comm/watch/wait_probe.hpp"

namespace axonn {

class BufferPool;
class ProgressEngine;
class QueuedOperation;

class SharedWindow;
struct OperationQueue;

// State that the operations of one communicator share; each array has one entry per priority. It
// lives until the last operation is gone, and then serves the next communicator of the same group.
struct Channel {
  Group group;
  std::string name;                                   // "x", "z+data"
  std::array<uint32_t, 3> ids{};                      // one channel per queue, so that messages do not mix
  std::array<uint32_t, 3> recorded_as{};              // in flight records, where groups that share ids have their own
  std::array<std::atomic<uint64_t>, 3> signatures{};  // those of the last collectives
  CallLabels labels;
  std::shared_ptr<const StepMoment> moment;               // that of its communicator now; may be null
  std::array<std::shared_ptr<OperationQueue>, 3> queues;  // operations of the last communicator in them go first
  std::array<std::shared_ptr<SharedWindow>, 3> windows;   // opened at first use
  std::atomic<int64_t> bytes_sent{0};
  std::atomic<int64_t> messages{0};
  std::atomic<int64_t> collectives{0};
  std::atomic<int64_t> point_to_point{0};  // sends and receives
};

// The operations of one communicator at one priority, first in first out. Used only under the
// engine's lock.
struct OperationQueue {
  Priority priority = Priority::normal;
  std::shared_ptr<QueuedOperation> head;
  QueuedOperation* tail = nullptr;
};

// A collective as a state machine: the progress engine calls poll() until it is finished.
// Everything but wait() and done() is called under the engine's lock.
class QueuedOperation : public Request::State {
 public:
  enum class Progress : uint8_t { blocked, made, finished };

  struct Call {
    const char* collective = "";  // "all-reduce"
    std::shared_ptr<Channel> channel;
    std::shared_ptr<OperationQueue> queue;
    std::shared_ptr<BufferPool> pool;
    int64_t sequence = 0;  // number on its communicator, counted from 1
    size_t bytes = 0;
    CallDetails details;  // without signature
    uint64_t shape = 0;   // signature_of()
    bool needs_all = false;
    at::Tensor input, output;                    // kept alive
    const CollectiveOptions* options = nullptr;  // read only during construction
  };
  explicit QueuedOperation(Call call);

  void wait() final;
  bool done() final { return done_.load(std::memory_order_acquire); }
  std::optional<Request::Times> moved() const final { return Request::Times(began_, last_progress_); }

  // Does what is possible now and returns; never blocks.
  virtual Progress poll(Transport& transport) = 0;

  // Whether it may run beside an unfinished `earlier` operation of its queue without a visible
  // difference.
  virtual bool passes(const QueuedOperation& /*earlier*/) const { return false; }

  // Computes a part of what this operation needs from no other rank. The engine calls it when
  // nothing else moves and all in `after` is done, also before the first poll. `no`: it has no such
  // work.
  enum class Ahead : uint8_t { no, computed, complete };
  virtual Ahead compute_ahead() { return Ahead::no; }

  // Called when it is finished: gives its staging memory back, since its request may be kept for
  // long.
  virtual void release() {}

  // The rank of the job that it waits for, or -1.
  virtual int waits_for() const = 0;

  // Whether it cannot end before that rank has called it too. False when it may only wait for its
  // messages to leave.
  bool needs_its_call() const { return needs_all_ || waits_for_data(); }
  bool needs_all() const { return needs_all_; }  // it cannot end before all members have called it

  FlightRecorder::Call call() const;  // its texts live as long as this operation

 protected:
  const Channel& channel() const { return *channel_; }
  uint32_t channel_id() const { return channel_->ids[static_cast<size_t>(queue_->priority)]; }
  uint32_t recorded_channel() const { return channel_->recorded_as[static_cast<size_t>(queue_->priority)]; }
  uint32_t message_channel() const { return channel_->labels.channel(channel_id(), details_.signature); }
  int size() const { return channel_->group.size(); }
  int index() const { return channel_->group.index; }
  int job_rank(int member) const { return channel_->group.ranks[static_cast<size_t>(member)]; }
  BufferPool& pool() { return *pool_; }
  void count_sent(size_t bytes) {
    channel_->bytes_sent.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }
  // Whether this rank's contributions to the owner's elements [begin, begin + count) may be read.
  bool written(int owner, int64_t begin, int64_t count) const {
    return !production_ || production_->ready(owner, begin, count);
  }
  const std::optional<Production::Reader>& production() const { return production_; }
  virtual bool waits_for_data() const = 0;  // that the rank of waits_for() gives in its call
  uint64_t signature() const { return details_.signature; }
  Transport::Ticket send(Transport& transport, int member, const void* data, size_t bytes);
  Transport::Ticket receive(Transport& transport, int member, void* data, size_t bytes);

 private:
  friend class ProgressEngine;

  bool ready() const;  // everything in `after` is done
  QueuedOperation* held_back_by() const;
  void finish();
  void fail(const std::string& error);

  const char* collective_;
  std::shared_ptr<Channel> channel_;
  std::shared_ptr<OperationQueue> queue_;
  std::shared_ptr<BufferPool> pool_;
  int64_t sequence_;
  size_t bytes_;
  CallDetails details_;
  const bool needs_all_;
  at::Tensor input_, output_;
  std::array<char, 64> tag_{};
  c10::SmallVector<Request, 2> after_;
  std::optional<Production::Reader> production_;

  std::shared_ptr<QueuedOperation> next_;
  ProgressEngine* engine_ = nullptr;
  std::shared_ptr<std::atomic<bool>> host_knows_;  // ProgressEngine's
  uint64_t record_ = 0;                            // FlightRecorder's
  int64_t order_ = 0;                              // FlightRecorder::Key's
  bool started_ = false;
  std::atomic<bool> program_waits_{false};  // the program's thread, in wait()
  ProbeClock probes_;
  std::chrono::steady_clock::time_point began_, last_progress_;
  std::string error_;  // written before done_
  std::atomic<bool> done_{false};
};

}  // namespace axonn
