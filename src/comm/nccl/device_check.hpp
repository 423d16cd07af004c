#pragma once

#include <c10/core/Device.h>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// UserError unless NCCL can join the GPUs of the group: each rank has one of its own, and all are
// of one kind. Ranks with different NCCL_HOSTID may share one, because NCCL takes them for
// different hosts. `cpu` spans the group; every rank of it calls.
void check_devices(Communicator& cpu, const Group& group, c10::Device device);

}  // namespace axonn
