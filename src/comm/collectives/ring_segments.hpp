#pragma once

#include <algorithm>
#include <cstdint>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// The messages of a ring, which ProducedParts follow.
struct RingSegments {
  static constexpr int kDepth = 8;  // messages of an owner in a group, unless parts are larger
  static constexpr int64_t kSmallestBytes = kSmallestSegment;
  // Below 64 KiB: MPI over TCP sends larger messages only after a handshake, which queues behind
  // other data (0.6 of the bandwidth instead of 0.95).
  static constexpr int64_t kLargestBytes = 60 << 10;

  // Elements of a message where an owner has so many; multiples of `unit`. Depends only on values
  // that all ranks know: both ends of a message must agree on its size.
  static int64_t elements(int64_t owned, int64_t element_bytes, int64_t unit, int64_t most_bytes = kLargestBytes) {
    const int64_t even = (owned + kDepth - 1) / kDepth;
    return std::clamp((even + unit - 1) / unit * unit, kSmallestBytes / element_bytes,
                      most_bytes / element_bytes / unit * unit);
  }
};

}  // namespace axonn
