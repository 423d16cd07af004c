#pragma once

#include <functional>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "axonn/overlap/step/arena.hpp"
#include "axonn/overlap/step/gathered_weight.hpp"

namespace axonn {

class GradientReducer;
class Request;
class Scheduler;
class WeightGatherer;

// When the weights and gradients of one network move; its parameters hold it. The scheduler makes it and decides. Called by the host
// thread, in the same order on every rank of the grid.
//
// Gradients: every forward use of a parameter under autograd is counted by use(); backward answers each with one reduce(). When all uses
// are answered, the sum of the contributions is reduced over Z (reduce-scatter, or nothing yet for a parameter that is whole on every Z
// rank) into the gradient arena. When the last micro-batch has come, the arena is summed over data (and Z for the latter) in buckets.
class NetworkSchedule {
 public:
  NetworkSchedule(Scheduler& scheduler, const std::shared_ptr<Arena>& arena);
  ~NetworkSchedule();
  NetworkSchedule(const NetworkSchedule&) = delete;
  NetworkSchedule& operator=(const NetworkSchedule&) = delete;

  Scheduler& scheduler() const { return scheduler_; }

  // The (X, Y) block of a weight, gathered over Z.
  GatheredWeight gathered(const ArenaSlot& slot);
  // The weights have been written, or are until `valid_at` is done: gathers wait for it, and what was gathered before is dropped. Whoever
  // writes weights says so. (Operations of LibTorch that write a shard in place are noticed without it, fused optimizers are not.)
  void weights_written();
  void weights_written(Request valid_at);

  // A forward use that backward will answer; a recomputation is none. UserError outside a step.
  void use(const ArenaSlot& slot);
  // Adds one contribution: `write(block, add)` stores the gradient of the whole block (add false) or adds it to what is there (add true).
  void reduce(const ArenaSlot& slot, const std::function<void(const at::Tensor& block, bool add)>& write);
  // A parameter that has got no gradient since the last step began; empty when all have.
  std::string without_gradient() const;

 private:
  friend class Scheduler;
  bool expired() const { return arena_.expired(); }

  Scheduler& scheduler_;
  std::weak_ptr<Arena> arena_;
  std::unique_ptr<WeightGatherer> weights_;
  std::unique_ptr<GradientReducer> gradients_;
};

}  // namespace axonn
