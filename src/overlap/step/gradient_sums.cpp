#include "axonn/overlap/step/gradient_sums.hpp"

#include "axonn/overlap/step/traffic.hpp"

namespace axonn {

CollectiveOptions GradientSums::options_for(const GradientBucket& bucket) {
  return {.priority = queue_of(Traffic::data),
          .after = bucket.after,
          .tag = "gradients",
          .arena_offset = bucket.range.begin};
}

CollectiveOptions GradientSums::options_for(const GradientBlock& block) {
  return {.priority = queue_of(Traffic::reduce_scatter), .tag = block.bundle.name};
}

Request GradientSums::all_reduce(const GradientBucket& bucket) {
  return communicators_[bucket.axes].all_reduce(gradients_of(bucket), ReduceOp::sum, options_for(bucket));
}

Request GradientSums::reduce_scatter(const GradientBlock& block) {
  return communicators_[Axis::z].reduce_scatter(block.whole, block.shard, block.bundle.counts, ReduceOp::sum,
                                                options_for(block));
}

}  // namespace axonn
