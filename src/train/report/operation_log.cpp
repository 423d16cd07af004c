#include "train/report/operation_log.hpp"

#include <memory>
#include <mutex>
#include <utility>

#include <ATen/record_function.h>

namespace axonn {
namespace {

using Clock = std::chrono::steady_clock;

// LibTorch calls these as plain functions, from every thread that runs operations.
std::mutex entries_mutex;
std::vector<OperationLog::Entry> entries;

struct Running : at::ObserverContext {
  Clock::time_point begin = Clock::now();
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) { return std::make_unique<Running>(); }

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto now = Clock::now();
  const std::lock_guard lock(entries_mutex);
  entries.push_back({function.name(), static_cast<Running*>(context)->begin, now, function.threadId()});
}

}  // namespace

void OperationLog::start() {
  if (handle_ != 0) return;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
}

void OperationLog::stop() {
  if (handle_ == 0) return;
  at::removeCallback(std::exchange(handle_, 0));
}

std::vector<OperationLog::Entry> OperationLog::take() {
  const std::lock_guard lock(entries_mutex);
  return std::exchange(entries, {});
}

}  // namespace axonn
