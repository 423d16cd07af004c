#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "axonn/comm/communicators.hpp"
#include "axonn/overlap/step/arena.hpp"
#include "axonn/overlap/step/overlap_policy.hpp"
#include "axonn/overlap/step/gathered_weight.hpp"
#include "axonn/overlap/step/phase.hpp"
#include "axonn/overlap/step/tensor_pool.hpp"
#include "axonn/overlap/step/traffic.hpp"
#include "overlap/step/gather_order.hpp"

namespace axonn {

// Gathers one network's weights over Z ahead of their use, in the order of the last time, and keeps
// them while the budget allows. All ranks of the grid decide alike, since they run the same
// program.
class WeightGatherer {
 public:
  WeightGatherer(const Arena& arena, Communicators& communicators, const OverlapPolicy& policy, TrafficLog& log,
                 std::shared_ptr<TensorPool> pool);

  // `update_follows`: the optimizer will write the weights after this backward pass.
  // The unpacked bundle, flat.
  GatheredWeight gathered(const ArenaBundle& bundle, Phase phase, bool update_follows);
  void policy_changed();  // between steps
  // A step begins with updated weights: gathers those that it will need first.
  void begin_step();
  // The weights have changed, or change until the requests of these ranges are done.
  void written(std::vector<WrittenRange> ranges);
  void wait_for_writers();

  const GatherCounters& counters() const { return counters_; }

 private:
  struct Weight {
    std::shared_ptr<const at::Tensor> arriving;
    LoggedRequest request;                    // that of `arriving`
    std::shared_ptr<const at::Tensor> whole;  // unpacked
    bool here() const { return arriving || whole; }
    bool kept = false;    // until the weights change
    int uses = 0;         // since the weights changed
    int uses_before = 0;  // between the two last changes
  };

  void launch(int index);
  void arrive(int index);
  void drop(Weight& weight);
  void drop_all();
  void look_ahead(bool update_follows);
  void forget_if_changed();
  void forget();
  void choose_kept();
  void warn_if_too_small() const;
  std::shared_ptr<const at::Tensor> borrow(const ArenaBundle& bundle);
  const ArenaBundle& bundle_at(int index) const { return arena_.bundles()[static_cast<size_t>(index)]; }
  int64_t bytes(const ArenaBundle& bundle) const;
  void wait_for_writers_of(const ArenaBundle& bundle);

  // Of the shards that are gathered; scattered weights never are.
  uint32_t version() const { return arena_.is_scattered() ? 0 : arena_.weights()._version(); }

  const Arena& arena_;
  Communicators& communicators_;
  const OverlapPolicy& policy_;
  TrafficLog& log_;
  const std::shared_ptr<TensorPool> pool_;  // its buffers may come back after the gatherer has gone
  GatherOrder order_;
  std::vector<Weight> weights_;  // one per bundle
  std::vector<int> ahead_;       // gathered and not yet used
  Phase phase_ = Phase::train;
  std::vector<WrittenRange> writing_;
  uint32_t version_;
  bool fresh_ = true;  // nothing was gathered since the weights changed
  GatherCounters counters_;
};

}  // namespace axonn
