#pragma once

#include <cstddef>

namespace axonn::bench {

inline constexpr const char* kSecret = "bench";  // the measured job's

// The bytes that ranks of a job send while it starts over TCP.
struct StartUpBytes {
  size_t rank_0 = 0;
  size_t rank_1 = 0;  // passes the table of addresses on, as every rank with children in the tree does
  double seconds = 0;
};

// Ranks 0 and 1 start as in a job of `ranks`, at least 6. Loopback connections stand in for the
// others: each joins as its rank does.
StartUpBytes start_up_bytes(int ranks);

}  // namespace axonn::bench
