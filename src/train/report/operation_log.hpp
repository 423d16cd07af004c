#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace axonn {

// LibTorch's operations (and ours, which announce themselves the same way) while it records. One a process at a time.
class OperationLog {
 public:
  struct Entry {
    using Time = std::chrono::steady_clock::time_point;
    std::string name;
    Time begin, end;
    uint64_t thread;  // LibTorch's number of it
  };

  OperationLog() = default;
  ~OperationLog() { stop(); }
  OperationLog(const OperationLog&) = delete;
  OperationLog& operator=(const OperationLog&) = delete;

  void start();
  void stop();
  std::vector<Entry> take();  // what has ended since the last call

 private:
  uint64_t handle_ = 0;
};

}  // namespace axonn
