#pragma once

#include <filesystem>
#include <string>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// UserError on every rank if a file that each reads by itself is not that of rank 0: it names the
// ranks, and file and host of the first one. Every rank calls it. `what`: "checkpoint"; `flag`:
// "--resume".
void check_same_file(Communicator& everyone, const std::filesystem::path& file, const std::string& what,
                     const std::string& flag);

}  // namespace axonn
