#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nccl.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/comm/same_settings.hpp"

// Starts of NCCL's communicators. The newer ones are taken where both the headers of the build and
// the library of the process have them.
namespace axonn {

// BackendError with NCCL's own text unless `result` is success. `comm` may be null.
void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm);

struct NcclStart {
  std::string call;                                    // NCCL's function, for errors
  std::function<ncclResult_t(ncclComm_t& made)> make;  // waits for all members
};

// By these a process decides between the starts: all members of a group must have the same.
std::vector<Setting> nccl_start_settings();

// By identities, which the roots of the group choose: one member of AXONN_NCCL_RANKS_PER_ROOT with
// NCCL 2.23 and newer, else its first one. `cpu` spans the group; every rank of it calls.
NcclStart start_by_identity(Communicator& cpu);

// From another communicator of the group, on which nothing may be under way when it is made: its
// members are connected, so they need no root. Nothing with NCCL older than 2.18. A group is not
// split from a larger one: that takes a gather over all members of the larger one, and all of them
// would have to come.
std::optional<NcclStart> start_by_split(ncclComm_t other, int rank);

}  // namespace axonn
