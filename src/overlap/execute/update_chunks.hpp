#pragma once

#include <vector>

#include "axonn/overlap/step/overlap_policy.hpp"
#include "overlap/execute/update_memory.hpp"

namespace axonn {

// Elements of a region whose weights are gathered by one message.
struct UpdateChunk {
  const UpdateRegion* region = nullptr;
  Range range;
};

// The regions that several ranks hold, in portions as large as gradient buckets, cut at the owners'
// blocks, in the order in which the forward pass needs their first parameters. One portion per
// region when the policy has no buckets.
std::vector<UpdateChunk> update_chunks(const Arena& arena, const std::vector<UpdateRegion>& regions,
                                       const OverlapPolicy& policy);

}  // namespace axonn
