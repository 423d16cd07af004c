#pragma once

#include <memory>
#include <string>

#include <c10/core/Device.h>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// NCCL's collectives on CUDA streams of their own, with one of NCCL's communicators and one stream
// per priority, made when a collective first has it: then the host waits for all members. `cpu`
// spans the same group and carries the start-up. Every rank of the group calls it. BackendError
// when NCCL is not built in, or fails.
std::unique_ptr<Communicator> make_nccl_communicator(const Group& group, const std::string& name, c10::Device device,
                                                     std::unique_ptr<Communicator> cpu);

}  // namespace axonn
