#pragma once

#include <string>

#include "axonn/comm/communicator.hpp"
#include "axonn/train/trained_run.hpp"

namespace axonn {

// The surroundings of a start of a run: hosts, grid, devices, versions, the command line and the
// predicted memory, as a JSON object whose keys docs/running.md lists. Every rank of `everyone`
// calls it, for the names of the hosts.
std::string environment_json(const TrainedNetwork& network, const RunIdentity& identity, Communicator& everyone);

}  // namespace axonn
