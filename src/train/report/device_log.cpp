#include "train/report/device_log.hpp"

#include <exception>
#include <memory>
#include <utility>

#include <torch/csrc/autograd/profiler_kineto.h>

#include "axonn/core/log.hpp"

namespace axonn {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

const torch::profiler::impl::ProfilerConfig& config() {
  static const torch::profiler::impl::ProfilerConfig the(torch::profiler::impl::ProfilerState::KINETO);
  return the;
}

}  // namespace

DeviceLog::~DeviceLog() {
  try {
    (void)stop();
  } catch (const std::exception& error) {
    log::error("the device's part of a trace is lost: ", error.what());
  }
}

void DeviceLog::start() {
  if (std::exchange(recording_, true)) return;
  profiler::prepareProfiler(config(), {ActivityType::CUDA});
  profiler::enableProfiler(config(), {ActivityType::CUDA});
}

std::vector<DeviceLog::Entry> DeviceLog::stop() {
  if (!std::exchange(recording_, false)) return {};
  const std::unique_ptr<profiler::ProfilerResult> result = profiler::disableProfiler();
  // The profiler has the time of the day.
  using std::chrono::nanoseconds;
  const auto now = std::chrono::steady_clock::now();
  const auto day = std::chrono::system_clock::now().time_since_epoch();
  const auto at = [&](uint64_t time) {
    return now + std::chrono::duration_cast<Time::duration>(nanoseconds(static_cast<int64_t>(time)) - day);
  };
  std::vector<Entry> entries;
  for (const profiler::KinetoEvent& event : result->events())
    if (event.deviceType() == c10::DeviceType::CUDA)
      entries.push_back({event.name(), at(event.startNs()), at(event.endNs()), event.deviceResourceId()});
  return entries;
}

}  // namespace axonn
