#pragma once

#include <cstdint>

// Default portions of a step's communication. The trainer uses them
// (overlap/step/overlap_policy.hpp), and the planner assumes them.
namespace axonn {

inline constexpr int kPrefetch = 2;     // weights gathered ahead
inline constexpr int kOutstanding = 4;  // reduce-scatters under way; one more waits for the oldest
// A step's gradients are summed over data in messages of up to kBucketBytes. There are at least
// kLeastBuckets messages while each of them has kSmallBucket elements: smaller ones cost more to
// start than to send.
inline constexpr int64_t kBucketBytes = int64_t{25} << 20, kLeastBuckets = 8, kSmallBucket = int64_t{1} << 16;

}  // namespace axonn
