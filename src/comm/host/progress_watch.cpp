// The part of the engine that watches: lost ranks, calls that wait in vain, a program that does not
// come back. progress_rounds.cpp moves the calls.
#include "comm/host/progress_engine.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <unistd.h>

#include "axonn/core/crash_report.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;

constexpr auto kAbsence = 2s;  // a longer time between two looks means that the process was stopped

}  // namespace

void ProgressEngine::set_flight_directory(std::filesystem::path directory) {
  const std::lock_guard lock(poll_mutex_);
  enquiry_->set_directory(std::move(directory));
}

void ProgressEngine::watch_while_idle() {
  const std::unique_lock lock(poll_mutex_, std::try_to_lock);
  if (!lock) return;  // a waiting thread watches
  if (error_.empty()) {
    check_for_trouble();
  } else if (options_.ends_process && !*host_knows_ && Clock::now() - failed_ > kProgramComesBack) {
    log::error(error_, "; rank ", transport_->rank(), "'s program did not come back within ", kProgramComesBack.count(),
               " s, so its process ends");
    transport_->abort(1);
  }
}

void ProgressEngine::check_for_trouble() {
  try {
    transport_->check_others();
    if (const auto now = Clock::now(); now - last_watch_ >= kWatchEvery) watch(now);
  } catch (const std::exception& error) {
    fail_all(first_call() + error.what());
  }
}

void ProgressEngine::watch(Clock::time_point now) {
  const auto away = now - std::exchange(last_watch_, now);
  for (auto& queues : busy_queues_)
    for (const auto& queue : queues)
      for (QueuedOperation* operation = queue->head.get(); operation != nullptr; operation = operation->next_.get()) {
        if (away > kAbsence)  // the whole process was stopped, and others with it: SIGSTOP, a suspended job
          operation->last_progress_ = std::min(operation->last_progress_ + away, now);
        probe(*operation, now);
        if (too_late(*operation, now)) enquiry_->begin(lateness(operation->call().text(), operation->waits_for()));
      }
  const auto absence = away > kAbsence ? away : Clock::duration(0);
  if (const auto call = device_calls_->late(now, absence, options_.timeout)) enquiry_->begin(lateness(*call, -1));
  for (const auto& [rank, question] : device_calls_->probes(now)) enquiry_->probe(rank, question);
  const auto verdict = enquiry_->poll();
  enquires_ = enquiry_->under_way();
  if (verdict) fail_all(*verdict);
}

bool ProgressEngine::too_late(const QueuedOperation& operation, Clock::time_point now) const {
  return operation.started_ && now - operation.last_progress_ >= options_.timeout;
}

std::string ProgressEngine::lateness(const std::string& call, int waits_for) const {
  return detail::concatenate(
      call, " made no progress for ", options_.timeout.count(), " s: rank ", transport_->rank(), " waits",
      waits_for < 0 ? "" : detail::concatenate(" for rank ", waits_for),
      ", which did not call it, is still busy, or waits for another rank (AXONN_TIMEOUT_SECONDS sets the limit)");
}

// The beginning of an error that concerns everything outstanding.
std::string ProgressEngine::first_call() const {
  for (const auto& queues : busy_queues_)
    if (!queues.empty()) return queues.front()->head->call().text() + " failed: ";
  return "";
}

HangState ProgressEngine::describe() const {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  HangState state{.rank = transport_->rank(),
                  .host = host.data(),
                  .step = crash::step(),
                  .waits = waiters_ > 0,
                  .open = {},
                  .last = {},
                  .last_numbers = recorder_->last_numbers()};
  for (const auto& queues : busy_queues_)
    for (const auto& queue : queues)
      for (const QueuedOperation* operation = queue->head.get(); operation != nullptr;
           operation = operation->next_.get())
        state.open.push_back({.call = recorder_->find(operation->record_, operation->call()),
                              .members = RankRuns(operation->channel().group.ranks),
                              .waits_for = operation->started_ ? operation->waits_for() : -1});
  device_calls_->describe(state);
  state.last = recorder_->last(HangState::kMostLast);
  std::ranges::stable_sort(state.open, {}, [](const HangState::Open& open) { return open.call.called; });
  if (state.open.size() > HangState::kMostOpen) state.open.resize(HangState::kMostOpen);
  return state;
}

}  // namespace axonn
