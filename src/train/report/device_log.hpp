#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace axonn {

// Work that a GPU ran, by LibTorch's profiler (Kineto, CUPTI): kernels, copies and memsets. At most
// one per process at a time, and all calls from one thread.
class DeviceLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Entry {
    std::string name;
    Time begin, end;
    int64_t stream;
  };

  DeviceLog() = default;
  ~DeviceLog();
  DeviceLog(const DeviceLog&) = delete;
  DeviceLog& operator=(const DeviceLog&) = delete;

  void start();               // does nothing when it records already
  std::vector<Entry> stop();  // the device must have ended its work

 private:
  bool recording_ = false;
};

}  // namespace axonn
