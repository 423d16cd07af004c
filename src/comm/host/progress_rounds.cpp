// The part of the engine that moves the calls, a round at a time, with poll_mutex_ held.
#include "comm/host/progress_engine.hpp"

#include <exception>
#include <utility>

namespace axonn {

bool ProgressEngine::round() {
  ++polls_;
  if (has_mail_) admit();
  for (auto& queues : busy_queues_) {
    bool progressed = false;
    for (size_t i = 0; i < queues.size();) {
      progressed |= advance(*queues[i]);
      if (!error_.empty()) return true;
      if (queues[i]->head)
        ++i;
      else
        queues.erase(queues.begin() + static_cast<ptrdiff_t>(i));
    }
    if (progressed) return true;
  }
  check_for_trouble();
  return compute_ahead();
}

// In the order of each queue, and past nothing that only moves data: an operation meets the results
// of the earlier ones, except what they gather from other ranks.
bool ProgressEngine::compute_ahead() {
  for (const auto& queues : busy_queues_)
    for (const auto& queue : queues)
      for (auto* operation = queue->head.get(); operation != nullptr && operation->ready();
           operation = operation->next_.get()) {
        auto ahead = QueuedOperation::Ahead::no;
        if (!attempt(*operation, [&] { ahead = operation->compute_ahead(); })) return true;
        if (ahead == QueuedOperation::Ahead::computed) return true;
        if (ahead == QueuedOperation::Ahead::no) break;
      }
  return false;
}

// Returns whether it has not failed; if so, everything has.
template <typename Call>
bool ProgressEngine::attempt(QueuedOperation& operation, Call call) {
  try {
    call();
    return true;
  } catch (const std::exception& error) {
    fail_all(operation.call().text() + " failed: " + error.what());
    return false;
  }
}

void ProgressEngine::admit() {
  {
    const std::lock_guard lock(inbox_mutex_);
    admitted_.swap(inbox_);
    has_mail_ = false;
  }
  for (auto& operation : admitted_) {
    operation->record_ = recorder_->called(operation->call());
    operation->order_ = recorder_->order(operation->record_);
    if (!error_.empty()) {
      *host_knows_ = true;
      operation->fail("after an earlier failure: " + error_);
      --outstanding_;
      continue;
    }
    OperationQueue& queue = *operation->queue_;
    QueuedOperation* added = operation.get();
    if (queue.head) {
      queue.tail->next_ = std::move(operation);
    } else {
      busy_queues_[static_cast<size_t>(queue.priority)].push_back(added->queue_);
      queue.head = std::move(operation);
    }
    queue.tail = added;
  }
  admitted_.clear();
}

bool ProgressEngine::advance(OperationQueue& queue) {
  bool progressed = false;
  QueuedOperation* before = nullptr;
  for (auto* link = &queue.head; *link;) {
    QueuedOperation& operation = **link;
    if (!operation.started_ && !may_start(queue, operation)) break;
    const auto progress = poll(operation);
    if (!error_.empty()) return true;
    progressed |= progress != QueuedOperation::Progress::blocked;
    if (progress == QueuedOperation::Progress::finished) {
      const std::shared_ptr<QueuedOperation> finished = std::move(*link);
      *link = std::move(finished->next_);
      if (queue.tail == finished.get()) queue.tail = before;
      --outstanding_;
      recorder_->ended(finished->record_);
      finished->finish();
    } else {
      before = &operation;
      link = &operation.next_;
    }
  }
  return progressed;
}

bool ProgressEngine::may_start(const OperationQueue& queue, const QueuedOperation& operation) const {
  for (const QueuedOperation* earlier = queue.head.get(); earlier != &operation; earlier = earlier->next_.get())
    if (!operation.passes(*earlier)) return false;
  return operation.ready();
}

QueuedOperation::Progress ProgressEngine::poll(QueuedOperation& operation) {
  if (!operation.started_) {
    operation.started_ = true;
    operation.began_ = operation.last_progress_ = Clock::now();
  }
  auto progress = QueuedOperation::Progress::blocked;
  attempt(operation, [&] { progress = operation.poll(*transport_); });
  if (progress != QueuedOperation::Progress::blocked) operation.last_progress_ = Clock::now();
  return progress;
}

// Failed operations stay referenced until the transport is gone, because it may still write into
// their buffers.
void ProgressEngine::fail_all(const std::string& error) noexcept {
  if (!error_.empty()) return;
  error_ = enquiry_->verdict_or(error);
  failed_ = Clock::now();
  reported_ = enquiry_->reported();
  for (auto& queues : busy_queues_) {
    for (auto& queue : queues)
      while (queue->head) {
        std::shared_ptr<QueuedOperation> operation = std::move(queue->head);
        queue->head = std::move(operation->next_);
        --outstanding_;
        operation->fail(error_);
        abandoned_.push_back(std::move(operation));
      }
    queues.clear();
  }
  device_calls_->fail(error_);
  transport_->abandon(error_);
}

}  // namespace axonn
