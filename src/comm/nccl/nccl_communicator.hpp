#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <c10/core/Device.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/comm/step_moment.hpp"
#include "comm/watch/device_calls.hpp"

namespace axonn {

// The parts of its rank that a communicator for CUDA tensors uses.
struct NcclHost {
  std::unique_ptr<Communicator> cpu;              // over the same group; carries the start-up
  std::shared_ptr<DeviceCalls> calls;             // watches the collectives
  std::array<uint32_t, 3> channels = {};          // the CPU's, by priority
  std::shared_ptr<const StepMoment> moment = {};  // may be null
};

// Sets what NCCL reads from the process's environment, unless the user has. Called before the
// process has other threads, which might read the environment meanwhile.
void prepare_nccl();

// NCCL's collectives on CUDA streams of their own, with one of NCCL's communicators and one stream
// per priority, made when a collective first has it: then the host waits for all members. For a
// second and third priority it also waits for what the device has to do for the first one, since
// NCCL splits a communicator only where nothing is under way. Every rank of the group calls it.
// BackendError when NCCL is not built in, or fails.
std::unique_ptr<Communicator> make_nccl_communicator(const Group& group, const std::string& name, c10::Device device,
                                                     NcclHost host);

}  // namespace axonn
