#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "axonn/comm/communicator.hpp"
#include "data/text/text_encoding.hpp"

namespace axonn {

// Runs `work`, which does not communicate, in a thread of every rank until it has ended on all.
// Meanwhile the ranks meet every second, so that none that waits for another seems to hang, and
// every 30 seconds rank 0 logs `sentence` of the bytes that all ranks have counted. If it throws on
// a rank, the others are told to stop, and all throw as all_ranks_or_none() does. Collective.
void work_on_all(Communicator& everyone, const std::function<void(TextEncoding::Progress&)>& work,
                 const std::function<std::string(int64_t bytes)>& sentence);

}  // namespace axonn
