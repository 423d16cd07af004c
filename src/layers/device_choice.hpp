#pragma once

#include <c10/core/Device.h>

namespace axonn {

// The device that a rank computes on: `wanted` itself when it has a number, else the CUDA device number `local_rank` modulo the devices of
// the machine (several ranks may share one); made the current one of this thread. UserError when this build or this machine has none.
c10::Device choose_device(c10::Device wanted, int local_rank);

}  // namespace axonn
