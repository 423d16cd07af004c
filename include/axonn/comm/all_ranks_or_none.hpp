#pragma once

#include <functional>
#include <string>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// Runs `work` on every rank of `everyone`. `work` must not communicate; it reads a file or checks a
// configuration, for example. If it throws on any rank, all ranks throw the error of the lowest
// such rank, with the same type. So a file that one node cannot read ends the job with one
// sentence, and no rank waits for one that has left. Every rank of the group calls it.
void all_ranks_or_none(Communicator& everyone, const std::function<void()>& work);

// Returns rank `root`'s text on every rank. Collective.
std::string broadcast_text(Communicator& everyone, const std::string& text, int root);

}  // namespace axonn
