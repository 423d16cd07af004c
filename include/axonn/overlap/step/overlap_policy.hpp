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
CacheBudget parse_cache_budget(std::string_view text);  // "512M" (k, M, G: powers of 1024), or "8 layers"; else UserError
std::string to_string(const CacheBudget& budget);       // what parse_cache_budget() takes

// What of a step's communication runs beside computation, and in which portions. Every policy gives the same bits. Equal on all ranks of
// a grid.
struct OverlapPolicy {
  OverlapSwitches switches = {};
  int prefetch = kPrefetch;             // weights gathered ahead
  int outstanding = kOutstanding;       // reduce-scatters under way; one more waits for the oldest
  int64_t bucket_bytes = kBucketBytes;  // of gradients in one message over data, at most (terms/overlap_portions.hpp)
  CacheBudget cache_budget = {};        // of gathered weights kept

  static OverlapPolicy all() { return {}; }
  static OverlapPolicy none() { return {.switches = OverlapSwitches::none()}; }
};

}  // namespace axonn
