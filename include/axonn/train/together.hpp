#pragma once

#include <functional>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// Runs `work` (which does not communicate: reading a file, checking a configuration) on every rank of `everyone`. When it throws on any of
// them, all throw the error of the lowest such rank, as an error of its kind: a file that one node cannot read ends the job with one
// sentence, and nobody waits for a rank that is gone. Every rank of the group calls it.
void succeed_together(Communicator& everyone, const std::function<void()>& work);

}  // namespace axonn
