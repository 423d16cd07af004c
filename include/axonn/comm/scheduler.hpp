#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "axonn/comm/arena.hpp"
#include "axonn/comm/tensor_pool.hpp"
#include "axonn/comm/communicators.hpp"

namespace axonn {

// A gathered weight on loan: the whole (X, Y) block. The buffer goes back to the pool with the last copy, so never save it for backward.
class GatheredWeight {
 public:
  GatheredWeight(at::Tensor block, std::shared_ptr<void> loan) : block_(std::move(block)), loan_(std::move(loan)) {}
  const at::Tensor& operator*() const { return block_; }
  const at::Tensor* operator->() const { return &block_; }

 private:
  at::Tensor block_;
  std::shared_ptr<void> loan_;  // empty when the block lies in the arena itself
};

// A tensor that a collective is still working on.
class Pending {
 public:
  Pending(at::Tensor tensor, Request request) : tensor_(std::move(tensor)), request_(std::move(request)) {}
  at::Tensor wait() {
    request_.wait();
    return std::move(tensor_);
  }

 private:
  at::Tensor tensor_;
  Request request_;
};

// Decides WHEN the bytes of a training step move; layers say only WHAT they need (AxoNN, Algorithm 1). This one is the blocking policy:
// every collective is waited for where it is asked for. Called by the host thread, in the same order on every rank of the grid.
//
// Gradients: every forward use of a parameter under autograd is counted by use(); backward answers each with one reduce(). When all uses
// are answered, the sum of the contributions is reduced over Z (reduce-scatter, or nothing yet for a parameter that is whole on every Z
// rank) and added to the gradient arena. finish() sums over data (and Z for the latter) and checks that every parameter got a gradient.
class Scheduler {
 public:
  explicit Scheduler(Communicators& communicators, const Grid& grid);

  // Arenas leave by themselves when their network is gone.
  void add(const std::shared_ptr<Arena>& arena) { arenas_.push_back(arena); }

  // The (X, Y) block of a weight, gathered over Z.
  GatheredWeight gathered(const Arena& arena, const ArenaSlot& slot);

  // Sum, or another operation, over the group along `axes`; `tensor` is reduced in place and must be contiguous.
  Pending all_reduce(at::Tensor tensor, AxisSet axes, std::string_view tag, ReduceOp op = ReduceOp::sum);
  // Every rank's `input` (equal sizes), stacked in a new dim 0.
  Pending all_gather(const at::Tensor& input, AxisSet axes, std::string_view tag);

  void begin_step();
  bool in_step() const { return in_step_; }
  // A forward use that backward will answer. UserError outside a step.
  void use(ArenaSlot& slot);
  // Adds one contribution: `write(block, add)` stores the gradient of the whole block (add false) or adds it to what is there (add true).
  void reduce(Arena& arena, ArenaSlot& slot, const std::function<void(const at::Tensor& block, bool add)>& write);
  // All gradients are valid afterwards. UserError that names the parameters that got none, or not as many as they were used.
  void finish();

  TensorPool& pool() { return pool_; }
  // Seconds the host has waited for collectives since the last begin_step().
  double waited_seconds() const { return waited_seconds_; }

 private:
  at::Tensor gradient_block(Arena& arena, ArenaSlot& slot);
  void reduce_block(Arena& arena, ArenaSlot& slot);
  void wait(const Request& request);
  std::vector<std::shared_ptr<Arena>> living_arenas();

  Communicators& communicators_;
  const Grid& grid_;
  std::vector<std::weak_ptr<Arena>> arenas_;
  TensorPool pool_;
  bool in_step_ = false;
  double waited_seconds_ = 0;
};

}  // namespace axonn
