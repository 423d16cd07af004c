#include "comm/host/queued_operation.hpp"

#include <algorithm>

#include "axonn/core/crash_report.hpp"
#include "axonn/core/error.hpp"
#include "comm/host/progress_engine.hpp"

namespace axonn {
namespace {

constexpr int kMostSteps = 64;  // along requests that hold each other back

}  // namespace

QueuedOperation::QueuedOperation(Call call)
    : collective_(call.collective),
      channel_(std::move(call.channel)),
      queue_(std::move(call.queue)),
      pool_(std::move(call.pool)),
      sequence_(call.sequence),
      bytes_(call.bytes),
      details_(call.details),
      needs_all_(call.needs_all),
      input_(std::move(call.input)),
      output_(std::move(call.output)) {
  const auto tag = call.options->tag.substr(0, tag_.size() - 1);
  std::copy(tag.begin(), tag.end(), tag_.begin());
  details_.priority = static_cast<int8_t>(queue_->priority);
  if (channel_->moment) details_.moment = channel_->moment->packed();
  std::atomic<uint64_t>& last = channel_->signatures[static_cast<size_t>(queue_->priority)];
  details_.signature = signature_of(this->call(), call.shape, last);
  if (!this->call().point_to_point()) last = details_.signature;
  for (const Request& request : call.options->after)
    if (!request.done()) after_.push_back(request);
  if (call.options->production != nullptr) production_ = call.options->production->reader();
  crash::set_collective({.kind = collective_, .number = sequence_, .group = channel_->name, .tag = tag_.data()});
}

void QueuedOperation::wait() {
  if (production_ && !done()) production_->check_waiter(call().text());
  if (!done()) engine_->wait(*this);
  if (error_.empty()) return;
  *host_knows_ = true;
  throw BackendError("comm.wait", error_);
}

bool QueuedOperation::ready() const {
  return std::all_of(after_.begin(), after_.end(), [](const Request& request) { return request.done(); });
}

void QueuedOperation::finish() {
  release();
  after_.clear();
  input_.reset();
  output_.reset();
  done_.store(true, std::memory_order_release);
}

// Buffers and staging memory are kept, because the transport may still write into them.
void QueuedOperation::fail(const std::string& error) {
  error_ = error;
  done_.store(true, std::memory_order_release);
}

FlightRecorder::Call QueuedOperation::call() const {
  return {.collective = collective_,
          .group = channel_->name,
          .tag = tag_.data(),
          .number = sequence_,
          .bytes = static_cast<int64_t>(bytes_),
          .channel = recorded_channel(),
          .details = details_};
}

// The operation that has to move before this one does: itself if it has started. Null when it is
// about to start, or another thread has to act.
QueuedOperation* QueuedOperation::held_back_by() const {
  const QueuedOperation* at = this;
  for (int steps = 0; steps < kMostSteps && !at->started_; ++steps) {
    const QueuedOperation* next = nullptr;
    for (const auto* earlier = at->queue_->head.get(); earlier != nullptr && earlier != at && next == nullptr;
         earlier = earlier->next_.get())
      if (!at->passes(*earlier)) next = earlier;
    for (auto after = at->after_.begin(); after != at->after_.end() && next == nullptr; ++after)
      if (!after->done()) next = dynamic_cast<const QueuedOperation*>(after->state().get());
    if (next == nullptr) return nullptr;
    at = next;
  }
  return at->started_ ? const_cast<QueuedOperation*>(at) : nullptr;
}

Transport::Ticket QueuedOperation::send(Transport& transport, int member, const void* data, size_t bytes) {
  count_sent(bytes);
  channel_->messages.fetch_add(1, std::memory_order_relaxed);
  return transport.send(job_rank(member), message_channel(), data, bytes);
}

Transport::Ticket QueuedOperation::receive(Transport& transport, int member, void* data, size_t bytes) {
  return transport.receive(job_rank(member), message_channel(), data, bytes);
}

}  // namespace axonn
