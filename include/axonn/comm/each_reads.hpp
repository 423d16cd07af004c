#pragma once

#include <functional>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// all_ranks_or_none() for what each rank reads by itself: if it fails on some ranks and not on
// others, the error names those ranks and the host of the first one. Every rank calls it.
void each_rank_reads(Communicator& everyone, const std::function<void()>& read);

}  // namespace axonn
