#pragma once

#include <vector>

#include "axonn/grid/reduction/reduction_semantics.hpp"

namespace axonn {

// One collective of a step of a reduction program, on this rank's group and on contiguous chunks.
struct ReductionCall {
  Collective collective;
  int root = 0;              // for reduce and broadcast
  Range chunks;              // the chunks that it works on
  std::vector<Range> parts;  // parts of `chunks` in member order, for reduce-scatter and all-gather
  bool to_shard = false;     // the result goes to the shard, not to its place in the buffer
};

// The collectives of a step, from what each member of the group holds before and after it. When a
// member's chunks are not contiguous, its part is reduced to it, or broadcast from it, range by
// range. This moves as many bytes as one reduce-scatter or all-gather, and needs no packing.
std::vector<ReductionCall> reduction_calls(Collective collective, const std::vector<std::vector<Range>>& before,
                                           const std::vector<std::vector<Range>>& after);

// Turns a reduction to one member into a reduce-scatter in which the others get nothing, because
// that can write to the shard.
void write_to_shards(std::vector<ReductionCall>& calls, int members);

// Renumbers the chunks by the member that holds them at the end. Its shard is then one range,
// whatever the program leaves to it.
void into_shards(HeldChunks& flow, const std::vector<int>& group);

}  // namespace axonn
