#pragma once

#include <memory>
#include <string>

#include <c10/core/Device.h>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// Collectives of NCCL on CUDA streams of their own, one communicator and one stream a priority. `cpu` spans the same group and carries the
// start-up. Called by every rank of the group. BackendError when NCCL is not built in, or refuses.
std::unique_ptr<Communicator> make_nccl_communicator(const Group& group, const std::string& name, c10::Device device, Communicator& cpu);

}  // namespace axonn
