#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "axonn/terms/overlap_portions.hpp"
#include "axonn/terms/overlap_switches.hpp"

namespace axonn {

// How many gathered weights are kept: whichever limit is met first.
struct CacheBudget {
  int64_t bytes = int64_t{512} << 20;
  int64_t layers = int64_t{1} << 40;
  bool operator==(const CacheBudget&) const = default;
};
CacheBudget parse_cache_budget(std::string_view text);  // "512M" (k, M, G: 1024-based) or "8 layers"; else UserError
std::string to_string(const CacheBudget& budget);       // as parse_cache_budget() takes it

// The communication of a step that runs beside computation, and its portions. Every policy gives
// the same bits. All ranks of a grid have the same policy.
struct OverlapPolicy {
  OverlapSwitches switches = {};
  int prefetch = kPrefetch;             // weights gathered ahead
  int outstanding = kOutstanding;       // reduce-scatters under way at a time; one more waits for the oldest
  int64_t bucket_bytes = kBucketBytes;  // largest gradient message over data (terms/overlap_portions.hpp)
  CacheBudget cache_budget = {};        // for gathered weights

  static OverlapPolicy all() { return {}; }
  static OverlapPolicy none() { return {.switches = OverlapSwitches::none()}; }
};

// Largest number of elements of a message over data in a range of `elements`: a range makes several
// messages where it is not small. All of them when buckets are off.
int64_t bucket_elements(const OverlapPolicy& policy, int64_t elements, int64_t element_bytes);

}  // namespace axonn
