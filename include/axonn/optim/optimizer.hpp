#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/layers/context.hpp"
#include "axonn/optim/ema.hpp"

namespace axonn {

struct UpdateOptions {
  double max_norm = 0;        // gradients longer than this are shortened to it; 0: never
  double learning_rate = -1;  // of this step; negative: the optimizer's own
  double gradient_scale = 1;  // the gradients are those of so many times the loss
  bool poisoned = false;      // one rank's true (its loss is not finite) stops the update on all of its x, y and z
};

struct UpdateReport {
  double gradient_norm = 0;  // over the whole network, before clipping; the same on every rank
  bool applied = false;      // false: the norm is not finite or a rank was poisoned, nothing was changed
};

// Updates the master weights of `parameters`, and with them the weight shards, from their reduced gradients; flat buffers, each element on
// the ranks that store it. step() is called by every rank of the grid after Step::finish(), else UserError.
class Optimizer {
 public:
  Optimizer(Context& context, const Parameters& parameters, double learning_rate);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  UpdateReport step(UpdateOptions options = {});

  // From now on an average of the weights is kept ("ema" in state()), beginning with the present ones.
  void keep_average(double decay) { average_ = std::make_unique<Ema>(arena_, schedule_, decay); }
  // While it lives the network computes with the average; without one nothing happens.
  [[nodiscard]] Ema::InUse use_average() { return Ema::InUse(average_.get()); }

  // Per-element state with its name ("adam.m"), laid out as the arena's weights; saved in checkpoints beside them.
  std::vector<std::pair<std::string, at::Tensor>> state() const;
  int64_t steps_taken() const { return steps_taken_; }
  virtual void set_steps_taken(int64_t steps) { steps_taken_ = steps; }  // on resume

 protected:
  // One contiguous part of the arena whose elements are decayed alike.
  struct Part {
    at::Tensor weights;
    at::Tensor gradients;
    Range range;
    bool decay = false;
  };
  const std::vector<Part>& parts() const { return parts_; }
  Context& context() const { return context_; }
  Arena& arena() const { return arena_; }
  virtual std::vector<std::pair<std::string, at::Tensor>> moments() const = 0;
  virtual void update(double learning_rate, double gradient_factor) = 0;

 private:
  double gradient_norm(bool poisoned);

  Context& context_;
  Arena& arena_;
  NetworkSchedule& schedule_;
  double learning_rate_;
  at::Tensor wide_gradients_;  // in the master weights' type
  std::vector<Part> parts_;
  std::vector<Range> norm_ranges_;  // of the arena, counted on this rank
  int64_t steps_taken_ = 0;
  std::unique_ptr<Ema> average_;  // where one is kept
};

}  // namespace axonn
