#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/layers/context.hpp"
#include "axonn/optim/average_rate.hpp"
#include "axonn/overlap/execute/update_executor.hpp"

namespace axonn {

struct UpdateOptions {
  double max_norm = 0;        // gradients are clipped to this norm; 0: never
  double learning_rate = -1;  // for this step; negative: the optimizer's own
  double gradient_scale = 1;  // factor by which the loss was multiplied
  // Asked once the norm is known and finite; the same answer on every rank. False: nothing changes.
  std::function<bool(double norm)> accept = {};
  bool poisoned = false;  // loss is not finite; true on one rank stops it on all; on GPUs, on its x, y and z
  // The step's loss, a number on the device, for optimizers that run ahead: the host does not wait.
  // If loss or norm are not finite, this update and all later ones change nothing.
  at::Tensor loss = {};
  // With `loss`: learning rate and number of the update are those of stage(), read on the device.
  bool staged = false;
};

struct UpdateReport {
  double gradient_norm = 0;  // over the whole network, before clipping; the same on every rank
  bool applied = false;      // false: not accepted, the norm is not finite, or a rank was poisoned; nothing changed
  at::Tensor norm = {};      // with UpdateOptions::loss, in the place of the others: fp64, on the device
};

// One kind of per-element state, such as "adam.m".
struct OptimizerState {
  std::string name;
  at::Tensor tensor;  // flat: laid out as the arena's weights, or only this rank's own elements; undefined for
                      // weights that are scattered
  bool own = false;   // only this rank's own elements (Arena::regions)
};

inline UpdatedNetwork updated_network(Context& context, const Parameters& parameters) {
  return {parameters.arena(), parameters.schedule(), context.communicators(),
          context.grid(),     context.rank(),        context.kept_scheduler()};
}

// Updates the master weights of `parameters`, and from them the weight shards, with their reduced
// gradients. make_optimizer() makes one. Every rank of the grid calls step() after Step::finish(),
// else UserError. The network outlives it.
class Optimizer {
 public:
  // average_decay: of the average of the weights; 0: none.
  Optimizer(const UpdatedNetwork& network, double learning_rate, double average_decay);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // The learning rate of the next step, before its first backward pass (negative: the optimizer's
  // own). Only schedule fuse without clipping needs it: it updates weights during backward, and the
  // next step() must follow.
  void prepare(double learning_rate = -1);
  // UserError if weights have changed already (prepare()) and the norm is not finite, or options
  // have `accept`.
  UpdateReport step(UpdateOptions options = {});
  // Whether it takes UpdateOptions::loss, without `accept`. Else UserError.
  virtual bool runs_ahead() const { return false; }
  // Puts onto the device what changes from one update to the next. Then all launches of the next
  // step({.loss = ..., .staged = true}) may be repeated, as the next update, after another stage().
  // It counts the update, and the learning rate is rounded to fp32. UserError unless
  // runs_ahead(), and in fp64.
  void stage(double learning_rate = -1);

  // While it lives, the network computes with the average of its weights. Then its weights are
  // restored, bit for bit. Every rank of the grid makes one. Without an average nothing happens.
  class AverageInUse {
   public:
    explicit AverageInUse(Optimizer& optimizer);
    ~AverageInUse();
    AverageInUse(const AverageInUse&) = delete;
    AverageInUse& operator=(const AverageInUse&) = delete;

   private:
    Optimizer& optimizer_;
  };
  [[nodiscard]] AverageInUse use_average() { return AverageInUse(*this); }

  // Whether the gradients are there after Step::finish(): those of the elements that this rank owns
  // (Arena::regions), or all. Schedule fuse without clipping uses sums up and stores none.
  virtual bool keeps_gradients() const { return true; }

  // Master weights ("weights") and per-element state by name. Checkpoints save them. Waits until
  // they are valid. The tensors stay the same as long as the optimizer lives; after an update they
  // are valid after NetworkSchedule::wait_for_weights().
  std::vector<OptimizerState> state() const;
  // The tensors of state() were changed, by a checkpoint or a user: the network's weights follow.
  // Every rank of the grid calls it.
  virtual void state_changed() = 0;

  int64_t steps_taken() const { return steps_taken_; }
  void set_steps_taken(int64_t steps) { steps_taken_ = steps; }  // to resume

 protected:
  Arena& arena() const { return network_.arena; }
  NetworkSchedule& schedule() const { return network_.schedule; }
  Scheduler& scheduler() const { return schedule().scheduler(); }
  bool keeps_average() const { return average_decay_ > 0; }
  // average += rate * (weights - average) after update n.
  double average_rate(int64_t update) const { return axonn::average_rate(average_decay_, update); }

  double rate(double learning_rate) const { return learning_rate < 0 ? learning_rate_ : learning_rate; }
  // For an update during backward: all numbers are known.
  virtual void prepare_update(double /*learning_rate*/) {}
  // Of update `steps_taken() + 1`.
  virtual double gradient_norm(double learning_rate, const UpdateOptions& options) = 0;
  virtual void update(double learning_rate, const UpdateOptions& options, double norm) = 0;
  // Both in one, without a wait of the host; of update `steps_taken()`. Returns the norm.
  virtual at::Tensor update_ahead(double /*learning_rate*/, const UpdateOptions& /*options*/) { return {}; }
  // The numbers of update `steps_taken()`.
  virtual void stage_update(double /*learning_rate*/) {}
  virtual std::vector<OptimizerState> tensors() const = 0;
  virtual void exchange_average() = 0;  // weights and their average, and the network's weights follow

 private:
  UpdatedNetwork network_;
  double learning_rate_;
  double average_decay_;  // 0: no average
  bool average_in_use_ = false;
  int64_t steps_taken_ = 0;
};

}  // namespace axonn
