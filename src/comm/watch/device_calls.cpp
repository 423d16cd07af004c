#include "comm/watch/device_calls.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "axonn/core/error.hpp"
#include "comm/watch/call_signature.hpp"

namespace axonn {
namespace {

constexpr std::chrono::seconds kAborting{5};

}  // namespace

FlightRecorder::Call DeviceCalls::Queue::call(const Open& open) const {
  return {.collective = open.collective,
          .group = name_,
          .tag = {},
          .number = open.number,
          .bytes = open.bytes,
          .channel = channel_};
}

DeviceCalls::~DeviceCalls() {
  if (ended_.valid()) ended_.wait_for(kAborting);
}

void DeviceCalls::add(std::shared_ptr<Queue> queue) {
  const std::lock_guard lock(mutex_);
  std::erase_if(queues_, [](const auto& known) { return known.expired(); });
  queues_.push_back(std::move(queue));
}

std::vector<std::shared_ptr<DeviceCalls::Queue>> DeviceCalls::queues() const {
  std::vector<std::shared_ptr<Queue>> alive;
  for (const auto& known : queues_)
    if (auto queue = known.lock()) alive.push_back(std::move(queue));
  return alive;
}

// Takes note of calls that have ended.
void DeviceCalls::settle(Queue& queue) {
  while (!queue.open_.empty() && queue.passed(queue.open_.front().mark)) {
    recorder_->ended(queue.open_.front().record);
    queue.open_.pop_front();
    queue.last_progress_ = Clock::now();
  }
}

void DeviceCalls::called(Queue& queue, const Call& call, Mark mark) {
  const std::lock_guard lock(mutex_);
  settle(queue);
  if (queue.open_.empty()) queue.last_progress_ = Clock::now();
  const bool message = call.peer >= 0;
  Queue::Open open{.collective = call.collective,
                   .waits_for = message ? queue.group_.ranks[static_cast<size_t>(call.peer)] : -1,
                   .number = message ? ++queue.messages_ : ++queue.collectives_,
                   .bytes = call.bytes,
                   .record = 0,
                   .mark = std::move(mark)};
  FlightRecorder::Call recorded = queue.call(open);
  recorded.tag = call.tag;
  recorded.details = call.details;
  recorded.details.peer = open.waits_for;
  recorded.details.signature = signature_of(recorded, call.shape, queue.signature_);
  if (!message) queue.signature_ = recorded.details.signature;
  open.record = recorder_->called(recorded);
  queue.open_.push_back(std::move(open));
}

std::optional<std::string> DeviceCalls::late(Clock::time_point now, Clock::duration away, std::chrono::seconds limit) {
  const std::lock_guard lock(mutex_);
  for (const auto& queue : queues()) {
    settle(*queue);
    if (queue->open_.empty()) continue;
    queue->last_progress_ = std::min(queue->last_progress_ + away, now);
    if (now - queue->last_progress_ < limit) continue;
    const Queue::Open& open = queue->open_.front();
    return recorder_->find(open.record, queue->call(open)).text();
  }
  return std::nullopt;
}

std::vector<std::pair<int, WaitProbe>> DeviceCalls::probes(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<int, WaitProbe>> result;
  for (const auto& queue : queues()) {
    settle(*queue);
    const Group& group = queue->group_;
    const int next = group.ranks[static_cast<size_t>((group.index + 1) % group.size())];
    if (queue->open_.empty() || queue->open_.front().waits_for >= 0 ||
        !queue->probes_.due(now, queue->last_progress_, next))
      continue;
    const Queue::Open& open = queue->open_.front();
    const CallRecord call = recorder_->find(open.record, queue->call(open));
    if (call.called == 0) continue;  // it is not remembered
    WaitProbe::Link link{
        .rank = group.ranks[static_cast<size_t>(group.index)],
        .call = {.channel = call.channel,
                 .order = call.order,
                 .signature = call.details.signature,
                 .text = call.full_text(),
                 .earlier = earlier_calls(*recorder_, {.channel = call.channel, .order = call.order})}};
    result.emplace_back(next, WaitProbe{.path = {std::move(link)}, .passed_on = {}});
  }
  return result;
}

// A rank whose device has calls to end waits for them sooner or later.
void DeviceCalls::describe(HangState& state) {
  const std::lock_guard lock(mutex_);
  for (const auto& queue : queues()) {
    settle(*queue);
    if (queue->open_.empty()) continue;
    const Queue::Open& first = queue->open_.front();
    state.waits = true;
    state.open.push_back({.call = recorder_->find(first.record, queue->call(first)),
                          .members = RankRuns(queue->group_.ranks),
                          .waits_for = first.waits_for});
    if (first.waits_for < 0) state.last_numbers[queue->channel_] = first.number;
  }
}

// On a thread of its own: the library may wait for kernels, and the engine has to go on.
void DeviceCalls::fail(const std::string& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  error_ = error;
  failed_ = true;
  auto all = queues();
  if (all.empty()) return;
  std::promise<void> ended;
  ended_ = ended.get_future();
  std::thread([all = std::move(all), ended = std::move(ended)]() mutable {
    all.front()->abort(all);
    ended.set_value();
  }).detach();
}

void DeviceCalls::check() const {
  if (!failed_) return;
  *host_knows_ = true;
  const std::lock_guard lock(mutex_);
  throw BackendError("comm.device", error_);
}

}  // namespace axonn
