#pragma once

#include <cstdint>

// Seconds of this thread's work by operation, without what nested operations take. Counts
// LibTorch's operators, and axonn's operations by the name of the layer.
class OperationTimes {
 public:
  void start();  // counting begins; call it on the thread that trains, and not twice
  void stop();
  // One line per kind of operation, longest first, then the sum of what is no matrix product. The
  // rest of `seconds`, the time of all steps, is no operation: autograd, the optimizer, the caller.
  void print(double seconds, int steps) const;

 private:
  uint64_t handle_ = 0;
};
