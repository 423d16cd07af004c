#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "axonn/overlap/step/arena.hpp"
#include "axonn/overlap/step/gradient_sums.hpp"
#include "axonn/overlap/step/overlap_policy.hpp"
#include "axonn/overlap/step/tensor_pool.hpp"
#include "axonn/overlap/step/traffic.hpp"

namespace axonn {

// When one network's gradients move. Contributions of a micro-batch are summed in a block; once all have come it is reduce-scattered over Z
// into the arena, the sum of the micro-batches before riding along as part of this rank's contribution. A parameter that is whole on every
// Z rank is summed in the arena itself. After the last micro-batch buckets, ranges of the arena, are summed over data (and Z for the
// latter).
class GradientReducer {
 public:
  GradientReducer(const std::shared_ptr<Arena>& arena, const Grid& grid, const std::shared_ptr<GradientSums>& sums,
                  const OverlapPolicy& policy, TrafficLog& log, TensorPool& pool);

  void policy_changed();  // between steps
  void begin_step(int micro_batches);
  void use(ArenaSlot& slot) { ++slot.gradient.uses; }
  void reduce(ArenaSlot& slot, const std::function<void(const at::Tensor& block, bool add)>& write);
  // The parameters that got no gradient, or fewer than they were used: "'a' (never used), 'b' (...)"; empty when all is well.
  std::string complaints() const;
  void send_rest();  // the buckets that are still here
  void wait();       // for everything under way

 private:
  struct Bucket {
    Range range;  // of the arena
    AxisSet axes;
    std::vector<int> slots;
    int missing = 0;  // slots whose last micro-batch has not come
    bool sent = false;
    Flight flight;
  };
  struct Scatter {
    Flight flight;
    at::Tensor block;  // on loan while the collective reads it
  };

  void cut(Range section, bool over_z, AxisSet axes);
  int number(const ArenaSlot& slot) const { return static_cast<int>(&slot - arena_.slots().data()); }
  at::Tensor block_of(const ArenaSlot& slot);
  void complete(ArenaSlot& slot);
  void scatter(ArenaSlot& slot);
  void retire_scatter();
  void send(Bucket& bucket);

  Arena& arena_;
  const Grid& grid_;
  const std::shared_ptr<GradientSums>& sums_;  // the scheduler's
  const OverlapPolicy& policy_;
  TrafficLog& log_;
  TensorPool& pool_;
  int micro_batches_ = 1;
  std::vector<at::Tensor> blocks_;  // one a slot, while contributions are to come
  std::vector<Flight> scattering_;  // one a slot: its last reduce-scatter
  std::deque<Scatter> under_way_;   // in the order of launching
  std::vector<Bucket> buckets_;     // in the order of the arena
  std::vector<int> bucket_of_;      // one a slot; -1: nothing to sum
};

}  // namespace axonn
