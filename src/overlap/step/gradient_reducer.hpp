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
  // All of it outlives the reducer; `sums` may be replaced between steps by set_sums().
  GradientReducer(Arena& arena, const Grid& grid, GradientSums& sums, const OverlapPolicy& policy, TrafficLog& log, TensorPool& pool);

  void set_sums(GradientSums& sums) { sums_ = &sums; }

  void policy_changed();  // between steps
  void begin_step(int micro_batches);
  void use(const ArenaSlot& slot) { ++of(slot).uses; }
  void reduce(const ArenaSlot& slot, const std::function<void(const at::Tensor& block, bool add)>& write);
  // The parameters that got no gradient, or fewer than they were used: "'a' (never used), 'b' (...)"; empty when all is well.
  std::string missing_gradients() const;
  // The first parameter without any gradient since begin_step(); empty when all have one.
  std::string without_gradient() const;
  void send_rest();  // the buckets that are still here
  void wait();       // for everything under way

 private:
  // What happened to the gradient of one parameter in the present step.
  struct Contributions {
    int uses = 0;     // forward uses that backward has not answered yet
    int arrived = 0;  // gradients that came since the last reduction
    int reduced = 0;  // reductions finished in this step (one a micro-batch)
    at::Tensor block;  // sum of the arrived ones while more are to come, on loan
    Flight scatter;    // its last reduce-scatter
    int bucket = -1;   // -1: nothing to sum
  };
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
  Contributions& of(const ArenaSlot& slot) { return contributions_[static_cast<size_t>(slot.number)]; }
  at::Tensor block_of(const ArenaSlot& slot);
  void complete(const ArenaSlot& slot);
  void scatter(const ArenaSlot& slot);
  void retire_scatter();
  void send(Bucket& bucket);

  Arena& arena_;
  const Grid& grid_;
  GradientSums* sums_;
  const OverlapPolicy& policy_;
  TrafficLog& log_;
  TensorPool& pool_;
  int micro_batches_ = 1;
  std::vector<Contributions> contributions_;  // one a slot
  std::deque<Scatter> under_way_;             // in the order of launching
  std::vector<Bucket> buckets_;               // in the order of the arena
};

}  // namespace axonn
