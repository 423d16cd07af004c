#pragma once

#include <optional>

#include <c10/core/Device.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace axonn {

// A graph is recorded from a stream that is not the default one. During its lifetime, with `own`,
// all steps and what comes between them go to such a stream.
class StepStream {
 public:
  StepStream(c10::Device device, bool own) : streams_(device.type()), device_(device) {
    if (own) guard_.emplace(streams_.getStreamFromGlobalPool(device));
    if (own) streams_.synchronizeDevice(device.index());
  }
  ~StepStream() {
    if (guard_) streams_.synchronizeDevice(device_.index());
  }
  StepStream(const StepStream&) = delete;
  StepStream& operator=(const StepStream&) = delete;

 private:
  c10::impl::VirtualGuardImpl streams_;
  c10::Device device_;
  std::optional<c10::StreamGuard> guard_;
};

}  // namespace axonn
