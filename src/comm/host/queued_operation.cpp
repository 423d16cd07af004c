#include "comm/host/queued_operation.hpp"

#include <algorithm>

#include "axonn/core/crash_report.hpp"
#include "axonn/core/error.hpp"
#include "comm/host/progress_engine.hpp"

namespace axonn {

QueuedOperation::QueuedOperation(Call call)
    : collective_(call.collective),
      channel_(std::move(call.channel)),
      queue_(std::move(call.queue)),
      pool_(std::move(call.pool)),
      sequence_(call.sequence),
      bytes_(call.bytes),
      input_(std::move(call.input)),
      output_(std::move(call.output)) {
  const auto tag = call.options->tag.substr(0, tag_.size() - 1);
  std::copy(tag.begin(), tag.end(), tag_.begin());
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
          .channel = channel_id()};
}

Transport::Ticket QueuedOperation::send(Transport& transport, int member, const void* data, size_t bytes) {
  count_sent(bytes);
  channel_->messages.fetch_add(1, std::memory_order_relaxed);
  return transport.send(job_rank(member), channel_id(), data, bytes);
}

Transport::Ticket QueuedOperation::receive(Transport& transport, int member, void* data, size_t bytes) {
  return transport.receive(job_rank(member), channel_id(), data, bytes);
}

}  // namespace axonn
