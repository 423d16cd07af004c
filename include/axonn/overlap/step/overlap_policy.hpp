#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace axonn {

// What of a step's communication runs beside computation (Singh et al., AxoNN 4D, section IV-B). Every policy gives the same bits. Equal on
// all ranks of a grid. A switch whose axis has one rank costs nothing.
struct OverlapPolicy {
  bool all_reduce = true;      // dI's all-reduce runs while dW is computed
  bool reduce_scatter = true;  // dW's reduce-scatter over Z is waited for at the end of the step
  bool all_gather = true;      // the weights needed next are gathered over Z while this layer computes
  bool cache = true;           // gathered weights are kept for recomputation, backward and the next micro-batch, within the budget
  bool buckets = true;         // gradients are summed over data in buckets, each sent when complete, while backward runs

  int prefetch = 2;                          // weights gathered ahead
  int outstanding = 4;                       // reduce-scatters under way; one more waits for the oldest
  int64_t bucket_bytes = int64_t{25} << 20;  // of gradients in one message over data, at most: an eighth of them, but not below 64 k elements
  int64_t cache_bytes = int64_t{512} << 20;  // of gathered weights kept
  int64_t cache_layers = int64_t{1} << 40;   // at most so many weights kept

  static OverlapPolicy all() { return {}; }
  static OverlapPolicy none() {
    return {.all_reduce = false, .reduce_scatter = false, .all_gather = false, .cache = false, .buckets = false};
  }

  // Switches by name: "all", "none", or some of "all-reduce,reduce-scatter,all-gather,cache,buckets". UserError with the nearest name.
  void set_switches(std::string_view list);
  // "512M" bytes (k, M, G: powers of 1024), or "8 layers".
  void set_cache_budget(std::string_view budget);

  std::string switches() const;  // what set_switches() takes
};

}  // namespace axonn
