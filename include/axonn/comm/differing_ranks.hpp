#pragma once

#include <string>
#include <vector>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// For errors about what ranks read by themselves. Every rank calls it.
std::vector<int> ranks_where(Communicator& everyone, bool here);
std::string ranks_text(const std::vector<int>& ranks);  // "rank 1", "ranks 1, 2"
std::string ranks_have(const std::vector<int>& ranks);  // "rank 1 has", "ranks 1, 2 have"

}  // namespace axonn
