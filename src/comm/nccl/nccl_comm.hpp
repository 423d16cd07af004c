#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <c10/core/Device.h>
#include <nccl.h>

#include "comm/nccl/nccl_start.hpp"
#include "comm/watch/device_calls.hpp"

namespace axonn {

// NCCL launches the calls of `body` as one. The first error; also after it NCCL is told that the
// group ends, since it would otherwise only collect all later calls of this thread.
template <typename Body>
ncclResult_t launched_as_one(Body&& body) {
  if (const ncclResult_t begin = ncclGroupStart(); begin != ncclSuccess) return begin;
  const ncclResult_t result = std::forward<Body>(body)();
  const ncclResult_t end = ncclGroupEnd();
  return result != ncclSuccess ? result : end;
}

// One of NCCL's communicators. Every rank of the group constructs and destroys it. The constructor
// waits for all of them; BackendError when the job of `calls` fails meanwhile.
class NcclComm final : public DeviceCalls::Queue {
 public:
  NcclComm(const Group& group, const std::string& name, uint32_t channel, c10::Device device, const NcclStart& start,
           const DeviceCalls& calls);
  ~NcclComm() override;

  // A start for which NCCL uses `other`, perhaps for ever. Until it has returned, `other` is
  // neither destroyed nor aborted. BackendError where it has been aborted before.
  static NcclStart keeping(std::shared_ptr<NcclComm> other, NcclStart start);

  ncclComm_t get() const { return comm_; }
  bool passed(const DeviceCalls::Mark& mark) override;  // a CUevent_st
  void abort(std::span<const std::shared_ptr<Queue>> all) noexcept override;

 private:
  const c10::Device device_;
  ncclComm_t comm_ = nullptr;
  std::atomic<bool> ended_{false}, kept_{false};
};

}  // namespace axonn
