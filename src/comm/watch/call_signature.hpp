#pragma once

#include <cstdint>
#include <string_view>

#include "comm/watch/flight_recorder.hpp"

namespace axonn {

// A hash of what all ranks of a group have alike in one call. Ranks with different signatures in
// call n of a queue call different things: their messages do not meet, and the job ends
// (WaitProbe). A send and its receive have the same signature. `shape` is what else must be equal:
// parts, owners, segments, a production. `before` is the signature of the collective before it in
// its queue, or 0. So no other calls of a queue have the same one, and ranks that have called
// different things once, in calls which ended all the same, do not meet again.
uint64_t signature_of(const FlightRecorder::Call& call, uint64_t shape, uint64_t before);

// How messages are labelled with their call: by the bits of a transport's channel from `shift` on.
// They cost nothing, and two signatures have the same label once in mask + 1 times.
struct CallLabels {
  int shift = 0;
  uint32_t mask = 0;  // 0: messages have no label

  uint32_t channel(uint32_t queue, uint64_t signature) const {
    return queue | (static_cast<uint32_t>(signature ^ signature >> 32) & mask) << shift;
  }
};

}  // namespace axonn
