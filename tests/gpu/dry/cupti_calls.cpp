// CUPTI, by which LibTorch's profiler learns of kernels: each launch is handed over as a kernel of one
// microsecond.
#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include <cupti.h>

#include "kernel_activity.hpp"
#include "record.hpp"

namespace dry {
namespace {

struct Launched {
  std::string name;
  int stream;
  uint64_t time;
};

struct Activity {
  std::mutex mutex;
  bool on = false;
  std::deque<Launched> launched;
  std::deque<std::string> names;  // of records that were handed over
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc clock = nullptr;
};

Activity& activity() {
  static auto* const the = new Activity;
  return *the;
}

uint64_t now(const Activity& of) {
  if (of.clock != nullptr) return of.clock();
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

using KernelRecord = CUpti_ActivityKernel10;

}  // namespace

void kernel_was_launched(const std::string& name, int stream) {
  Activity& all = activity();
  const std::lock_guard lock(all.mutex);
  if (all.on) all.launched.push_back({name, stream, now(all)});
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
  Activity& all = activity();
  const std::lock_guard lock(all.mutex);
  uint32_t number = 0;
  while (all.request != nullptr && !all.launched.empty()) {
    uint8_t* buffer = nullptr;
    size_t bytes = 0, most = 0, filled = 0;
    all.request(&buffer, &bytes, &most);
    for (; filled + sizeof(KernelRecord) <= bytes && !all.launched.empty(); filled += sizeof(KernelRecord)) {
      const Launched& launch = all.launched.front();
      auto& record = *new (buffer + filled) KernelRecord{};
      record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
      record.start = launch.time;
      record.end = launch.time + 1000;
      record.streamId = static_cast<uint32_t>(launch.stream);
      record.correlationId = ++number;
      record.name = all.names.emplace_back(launch.name).c_str();
      all.launched.pop_front();
    }
    all.complete(nullptr, 0, buffer, bytes, filled);
  }
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
DRY_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_driver_api_trace_cbid, uint8_t) { return CUPTI_SUCCESS; }
DRY_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_runtime_api_trace_cbid, uint8_t) { return CUPTI_SUCCESS; }
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
