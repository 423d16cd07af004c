// CUPTI, by which LibTorch's profiler learns of kernels. It hands over each launch as a kernel that
// took 1000 ticks.
#include <chrono>
#include <deque>
#include <mutex>
#include <new>
#include <string>

#include <cupti.h>

#include "kernel_activity.hpp"
#include "record.hpp"

namespace dry {
namespace {

using KernelRecord = CUpti_ActivityKernel10;

struct Activity {
  std::mutex mutex;
  bool on = false;
  std::deque<std::string> names;  // the records point to them
  uint8_t* buffer = nullptr;      // the profiler's
  size_t bytes = 0, filled = 0;
  uint32_t number = 0;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc clock = nullptr;

  uint64_t now() const {
    if (clock != nullptr) return clock();
    return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  }
  void hand_over() {
    if (buffer != nullptr) complete(nullptr, 0, buffer, bytes, filled);
    buffer = nullptr;
  }
  void add(const std::string& name, int stream) {
    if (buffer != nullptr && filled + sizeof(KernelRecord) > bytes) hand_over();
    if (buffer == nullptr) {
      size_t most = 0;
      filled = 0;
      request(&buffer, &bytes, &most);
    }
    auto& record = *new (buffer + filled) KernelRecord{};
    filled += sizeof record;
    record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    record.start = now();
    record.end = record.start + 1000;
    record.streamId = static_cast<uint32_t>(stream);
    record.correlationId = ++number;
    record.name = names.emplace_back(name).c_str();
  }
};

Activity& activity() {
  static auto* const the = new Activity;
  return *the;
}

}  // namespace

void kernel_was_launched(const std::string& name, int stream) {
  const std::lock_guard lock(activity().mutex);
  if (activity().on) activity().add(name, stream);
}

}  // namespace dry

using namespace dry;

DRY_EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                      CUpti_BuffersCallbackCompleteFunc complete) {
  activity().request = request;
  activity().complete = complete;
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  activity().clock = clock;
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(activity().mutex);
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) activity().on = true;
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  const std::lock_guard lock(activity().mutex);
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) activity().on = false;
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t) {
  const std::lock_guard lock(activity().mutex);
  activity().hand_over();
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  uint8_t* const next = *record == nullptr ? buffer : reinterpret_cast<uint8_t*>(*record) + sizeof(KernelRecord);
  if (next + sizeof(KernelRecord) > buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "a result of the dry GPU";
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t) { return CUPTI_SUCCESS; }
DRY_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId, uint8_t) { return CUPTI_SUCCESS; }
DRY_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId, uint8_t) { return CUPTI_SUCCESS; }
DRY_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t*) {
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t) {
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) { return CUPTI_SUCCESS; }
DRY_EXPORT CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId) {
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) {
  return CUPTI_SUCCESS;
}
DRY_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) { return CUPTI_SUCCESS; }
DRY_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) { return CUPTI_SUCCESS; }
DRY_EXPORT CUptiResult cuptiFinalize() { return CUPTI_SUCCESS; }
