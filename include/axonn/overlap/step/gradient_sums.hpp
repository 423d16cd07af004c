#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include "axonn/comm/communicators.hpp"
#include "axonn/overlap/step/arena.hpp"

namespace axonn {

// A range of an arena whose gradients are complete on this rank. It is sharded over Z, or
// replicated over Z when `axes` holds Z.
struct GradientBucket {
  Arena& arena;
  Range range;
  AxisSet axes;                    // axes to sum over
  std::span<const Request> after;  // requests that still write into the range
};

// The gradients of one bundle on this rank, to be reduced over Z.
struct GradientBlock {
  const ArenaBundle& bundle;
  at::Tensor whole;  // its buffer; unspecified afterwards
  at::Tensor shard;  // gets this rank's bundle.counts[z] elements
};

// How gradients are summed over the grid; the scheduler decides when. This class uses plain
// collectives, a derived class may use its own programs. Every rank calls in the same order. A
// request is done when the sum is complete.
class GradientSums {
 public:
  explicit GradientSums(Communicators& communicators) : communicators_(communicators) {}
  virtual ~GradientSums() = default;
  GradientSums(const GradientSums&) = delete;
  GradientSums& operator=(const GradientSums&) = delete;

  virtual Request all_reduce(const GradientBucket& bucket);
  virtual Request reduce_scatter(const GradientBlock& block);

 protected:
  // Options of the collective that sums it.
  static CollectiveOptions options_for(const GradientBucket& bucket);
  static CollectiveOptions options_for(const GradientBlock& block);
  static at::Tensor gradients_of(const GradientBucket& bucket) {
    return bucket.arena.gradients().narrow(0, bucket.range.begin, bucket.range.size());
  }

 private:
  Communicators& communicators_;
};

}  // namespace axonn
