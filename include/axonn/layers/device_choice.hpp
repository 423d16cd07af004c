#pragma once

#include <c10/core/Device.h>

namespace axonn {

// The device that a rank computes on: `wanted` itself if it has a number, else the CUDA device
// number `local_rank` modulo the number of devices. Several ranks may share one. It becomes the
// current device of this thread. UserError if this build or this machine has none.
c10::Device choose_device(c10::Device wanted, int local_rank);

}  // namespace axonn
