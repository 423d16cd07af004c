#pragma once

#include <cstdint>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace axonn::test {

// Bytes of tensors that this thread has allocated and not freed, while a c10::DebugInfoGuard of
// PROFILER_STATE holds it.
class HeldBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override { bytes_ += size; }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace axonn::test
