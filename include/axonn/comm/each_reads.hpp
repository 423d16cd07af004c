#pragma once

#include <functional>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// all_ranks_or_none() for what each rank reads by itself: if it fails on some ranks and not on
// others, a UserError names those ranks, the host of the first one, and its error. If it fails on
// all, the error is that of all_ranks_or_none(). Every rank calls it.
void each_rank_reads(Communicator& everyone, const std::function<void()>& read);

}  // namespace axonn
