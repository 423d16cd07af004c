#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/overlap/step/arena.hpp"
#include "axonn/overlap/step/gathered_weight.hpp"
#include "axonn/overlap/step/step_optimizer.hpp"

namespace axonn {

class GradientReducer;
class Request;
class Scheduler;
class StepListener;
class WeightGatherer;
struct WrittenRange;

// When the weights and gradients of one network move. The scheduler makes it, and the parameters of
// the network hold it. The host thread calls it, in the same order on every rank of the grid.
//
// use() counts every forward use of a parameter under autograd, and backward calls reduce() once
// per use. After the last of these calls the sum of the contributions goes into the gradient arena:
// by a reduce-scatter over Z, or directly for a parameter replicated over Z. After the last
// micro-batch the arena is summed in buckets over data, and also over Z for the replicated
// parameters: by GradientSums, or by the optimizer where it runs inside the step (StepOptimizer).
class NetworkSchedule {
 public:
  NetworkSchedule(Scheduler& scheduler, const std::shared_ptr<Arena>& arena);
  ~NetworkSchedule();
  NetworkSchedule(const NetworkSchedule&) = delete;
  NetworkSchedule& operator=(const NetworkSchedule&) = delete;

  Scheduler& scheduler() const { return scheduler_; }

  // The (X, Y) block of a weight, gathered over Z, with the others of its bundle.
  GatheredWeight gathered(const ArenaSlot& slot);
  // The blocks of a bundle, flat; each begins at its ArenaSlot::place.
  GatheredWeight gathered(const ArenaBundle& bundle);
  // Every writer of weights calls this. The weights have changed, or change until the requests of
  // their ranges are done; what lies in no range is valid. A weight waits for the ranges that it
  // meets, in whatever order they end; its gather waits too. Weights gathered before are dropped.
  // Ranges of an earlier call are waited for first. LibTorch operations that write a shard in place
  // are noticed without this call, fused optimizers are not.
  void weights_written();
  void weights_written(Request valid_at);  // the whole arena
  void weights_written(std::vector<WrittenRange> ranges);
  // Waits for all ranges. Whoever reads the arena's weights without gathered() calls it first.
  void wait_for_weights();

  // From the next step on, the optimizer runs inside the step: it sums the buckets of gradients, in
  // place of GradientSums, and may update weights with the sums. Null: no optimizer does. UserError
  // inside a step.
  void set_step_optimizer(std::shared_ptr<StepOptimizer> optimizer);
  // Whether all sums of gradients are valid on this rank after a step.
  bool whole_gradients() const { return optimizer_ == nullptr; }

  // Counts a forward use, for which backward will call reduce(). Recomputation does not count.
  // UserError outside a step.
  void use(const ArenaSlot& slot);
  // Adds one contribution to a parameter that is a bundle of one. `write(block, add)` stores the
  // gradient of the whole block when `add` is false, and adds it to the block when `add` is true.
  void reduce(const ArenaSlot& slot, const std::function<void(const at::Tensor& block, bool add)>& write);
  // The same for a contribution that holds all uses of a backward pass, as autograd sums them for a
  // leaf. No use() is counted for it. Undefined: zeros. A bundle is reduced when each of its
  // parameters has one; at the end of the step, zeros stand for those that are missing.
  void reduce_pass(const ArenaSlot& slot, const at::Tensor& gradient);
  // While more calls with true than with false were made, the steps that begin do not train this
  // network: gradients are dropped, and none is missing. The same on every rank.
  void rest(bool on) { resting_ += on ? 1 : -1; }
  bool rests() const { return rests_; }  // in this step, or the last one
  // Name of a parameter without a gradient since the last step began; empty when all have one.
  std::string without_gradient() const;

  // The listener hears of the steps as long as it lives; one at a time.
  void listen(std::weak_ptr<StepListener> listener) { listener_ = std::move(listener); }

 private:
  friend class Scheduler;
  bool expired() const { return arena_.expired(); }
  bool optimizer_has_updated() const;               // in this step
  void check_in_step(const ArenaSlot& slot) const;  // a gradient comes; UserError

  Scheduler& scheduler_;
  std::weak_ptr<Arena> arena_;
  std::weak_ptr<StepListener> listener_;
  std::unique_ptr<WeightGatherer> weights_;
  std::unique_ptr<GradientReducer> gradients_;
  std::shared_ptr<StepOptimizer> optimizer_;  // null: none runs in the step
  int resting_ = 0;
  bool rests_ = false;
};

}  // namespace axonn
