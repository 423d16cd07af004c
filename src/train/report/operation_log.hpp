#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace axonn {

// Operations of LibTorch, and ours, which are announced in the same way, while it records. At most
// one per process at a time.
class OperationLog {
 public:
  struct Entry {
    using Time = std::chrono::steady_clock::time_point;
    std::string name;
    Time begin, end;
    uint64_t thread;  // LibTorch's number of the thread
  };

  OperationLog() = default;
  ~OperationLog() { stop(); }
  OperationLog(const OperationLog&) = delete;
  OperationLog& operator=(const OperationLog&) = delete;

  void start();
  void stop();
  std::vector<Entry> take();  // operations that ended since the last call

 private:
  uint64_t handle_ = 0;
};

}  // namespace axonn
