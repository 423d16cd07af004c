#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "axonn/overlap/step/arena.hpp"
#include "axonn/overlap/step/gradient_sums.hpp"
#include "axonn/overlap/step/overlap_policy.hpp"
#include "axonn/overlap/step/step_optimizer.hpp"
#include "axonn/overlap/step/tensor_pool.hpp"
#include "axonn/overlap/step/traffic.hpp"

namespace axonn {

// When one network's gradients move. The contributions of a micro-batch are summed in the buffer of
// their bundle. When all have arrived, it is reduce-scattered over Z into the arena. The sum of the
// earlier micro-batches is part of this rank's contribution. A parameter replicated over Z is
// summed in the arena itself. After the last micro-batch the buckets of the arena are summed over
// data, and also over Z for replicated parameters.
class GradientReducer {
 public:
  // All arguments must outlive the reducer; set_sums() may replace `sums` between steps.
  GradientReducer(Arena& arena, const Grid& grid, GradientSums& sums, const OverlapPolicy& policy, TrafficLog& log,
                  TensorPool& pool);

  void set_sums(GradientSums& sums) { sums_ = &sums; }

  void policy_changed();  // between steps
  // The optimizer sums the buckets and may update with the sums; GradientSums do if null. Between
  // steps. It outlives the reducer, or leaves it before.
  void set_optimizer(StepOptimizer* optimizer);
  void begin_step(int micro_batches);
  void use(const ArenaSlot& slot) { ++of(slot).uses; }
  void reduce(const ArenaSlot& slot, const std::function<void(const at::Tensor& block, bool add)>& write);
  void reduce(const ArenaSlot& slot, const at::Tensor& gradient);
  // The parameters with no gradient, or with fewer gradients than forward uses: "'a' (never used),
  // 'b' (...)". Empty when there are none.
  std::string missing_gradients() const;
  // The first parameter without any gradient since begin_step(); empty when all have one.
  std::string without_gradient() const;
  void send_rest();  // sends what is not sent yet, with zeros for gradients that a bundle waits for
  void wait();       // for everything under way
  bool sends_buckets() const { return std::ranges::any_of(buckets_, &Bucket::sent); }
  void abandon();  // forgets a step whose collectives are done

 private:
  // State of one parameter's gradient in the current step.
  struct Contributions {
    int uses = 0;           // forward uses without a gradient yet
    int arrived = 0;        // gradients since the last reduction
    bool complete = false;  // no further one is expected until the next reduction
    int reduced = 0;        // reductions finished in this step (one per micro-batch)
    int bucket = -1;        // the first one that holds it; -1: nothing to sum
    int last_bucket = -1;
  };
  // The gradients of one bundle that is sharded over Z.
  struct BundleSum {
    at::Tensor buffer;      // sum of the arrived ones until the last one, on loan
    int complete = 0;       // parameters
    LoggedRequest scatter;  // its last reduce-scatter, until that is waited for
  };
  struct Bucket {
    Range range;  // place in the arena
    AxisSet axes;
    std::vector<int> slots;
    int missing = 0;  // slots whose last micro-batch has not arrived
    bool sent = false;
    LoggedRequest request;
  };
  struct Scatter {
    int bundle = 0;
    LoggedRequest request;
    at::Tensor buffer;  // on loan while the collective reads it
  };

  void cut(Range section, bool over_z, AxisSet axes);
  const ArenaSlot& slot_at(int index) const { return arena_.slots()[static_cast<size_t>(index)]; }
  Contributions& of(const ArenaSlot& slot) { return contributions_[static_cast<size_t>(slot.number)]; }
  BundleSum& bundle_sum(const ArenaSlot& slot) { return bundle_sums_[static_cast<size_t>(slot.bundle)]; }
  const ArenaBundle& bundle_of(const ArenaSlot& slot) const {
    return arena_.bundles()[static_cast<size_t>(slot.bundle)];
  }
  void check_expected(const ArenaSlot& slot);
  at::Tensor block_of(const ArenaSlot& slot);
  bool adds(const ArenaSlot& slot);
  int64_t bytes_per_gradient() const { return static_cast<int64_t>(c10::elementSize(arena_.types().gradients)); }
  void arrive(const ArenaSlot& slot);
  void scatter(const ArenaBundle& bundle);
  void reduced(const ArenaSlot& slot);
  void retire_scatter();
  void send(Bucket& bucket);
  Request sum_or_update(const GradientBucket& bucket);

  Arena& arena_;
  const Grid& grid_;
  GradientSums* sums_;
  StepOptimizer* optimizer_ = nullptr;
  const OverlapPolicy& policy_;
  TrafficLog& log_;
  TensorPool& pool_;
  int micro_batches_ = 1;
  std::vector<Contributions> contributions_;  // one per slot
  std::vector<BundleSum> bundle_sums_;        // one per bundle
  std::deque<Scatter> under_way_;             // in launch order
  std::vector<Bucket> buckets_;               // in arena order
};

}  // namespace axonn
